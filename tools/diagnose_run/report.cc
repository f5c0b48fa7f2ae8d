#include "tools/diagnose_run/report.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "tools/diagnose_run/shorten.h"
#include "tools/runs/schema.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

using runs::Name;

// How much of an answer is told; every step down drops what matters least, until it fits.
struct Extent {
  size_t hypotheses, evidence, against, sentence, fix, other_fix, moments, limits, carriers;
};
constexpr Extent kExtents[] = {
    {6, 8, 6, 600, 3000, 1500, 40, 10, 8}, {5, 6, 4, 420, 1100, 300, 16, 8, 6},
    {4, 5, 3, 340, 800, 220, 14, 6, 4},    {3, 4, 2, 280, 600, 160, 10, 5, 3},
    {2, 3, 2, 220, 400, 120, 8, 4, 2},     {1, 3, 1, 160, 300, 80, 6, 3, 1}};

const char* PlaceName(Onset::Place place) {
  switch (place) {
    case Onset::Place::kProducer:
      return "producer";
    case Onset::Place::kFirstSeen:
      return "first_seen";
    case Onset::Place::kUnplaced:
      return "not_known";
  }
  return "not_known";
}

Json FirstBadJson(const Onset& onset, const Extent& extent) {
  Json carriers = Json::array();
  for (const Carrier& carrier : onset.carriers) {
    if (carriers.size() == extent.carriers) break;
    carriers.push_back(
        {{"step", carrier.step}, {"layer", Name(carrier.layer)}, {"type", Name(carrier.type)}});
  }
  const auto text = [](const std::string& raw) {
    return raw.empty() ? Json(nullptr) : Json(Name(raw));
  };
  constexpr size_t kRanksShown = 16;
  Json json = {{"step", onset.step},
               {"phase", text(onset.phase)},
               // What an optimizer wrote was made by no layer; `what` names whose it is.
               {"layer", onset.phase == "optimizer" ? Json(nullptr) : text(onset.layer)},
               {"what", onset.what},
               {"source", text(onset.source)},
               {"place", PlaceName(onset.place)},
               {"how", onset.how},
               {"last_clean_sample",
                onset.last_clean_sample ? Json(*onset.last_clean_sample) : Json(nullptr)},
               {"carriers", std::move(carriers)},
               {"carrier_count", onset.carrier_count}};
  if (!onset.ranks.empty()) {
    json["ranks"] = std::vector<int64_t>(
        onset.ranks.begin(),
        onset.ranks.begin() + static_cast<ptrdiff_t>(std::min(kRanksShown, onset.ranks.size())));
  }
  return json;
}

std::vector<std::string> Cut(const std::vector<std::string>& sentences, size_t most, size_t bytes) {
  std::vector<std::string> cut;
  for (const std::string& sentence : sentences) {
    if (cut.size() == most) break;
    cut.push_back(Shorten(sentence, bytes));
  }
  return cut;
}

// The case itself and those that its page points to.
Json CasesOf(const Hypothesis& hypothesis, const cases::CaseLibrary& library) {
  Json ids = Json::array({hypothesis.cause->id});
  for (const std::string& id : hypothesis.cause->related) {
    if (ids.size() < 4 && library.Find(id)) ids.push_back(id);
  }
  return ids;
}

// Static findings that are told: those near the producer first.
constexpr size_t kCodeFindings = 3;

Json CodeJson(const Facts& facts) {
  Json code = Json::array();
  for (const StaticFinding& finding : facts.findings) {
    if (code.size() == kCodeFindings) break;
    code.push_back({{"rule", finding.rule},
                    {"severity", finding.severity},
                    {"place", finding.place},
                    {"message", finding.message},
                    {"near_producer", finding.near_source},
                    {"cases", finding.cases}});
  }
  return code;
}

// A cause this much weaker than the best is named in one line: its whole case would only distract.
constexpr double kFarBehind = 0.5;

double Rounded(double confidence) { return std::round(confidence * 100) / 100; }

Json BuildJson(const Subject& subject, const Facts& facts, const Diagnosis& d,
               const cases::CaseLibrary& library, const Extent& extent) {
  Json hypotheses = Json::array();
  for (const Hypothesis& h : d.hypotheses) {
    if (hypotheses.size() == extent.hypotheses) break;
    const size_t fix = hypotheses.empty() ? extent.fix : extent.other_fix;
    hypotheses.push_back({{"cause", h.cause->id},
                          {"title", h.cause->title},
                          {"confidence", Rounded(h.confidence)},
                          {"evidence", Cut(h.evidence, extent.evidence, extent.sentence)},
                          {"against", Cut(h.against, extent.against, extent.sentence)},
                          {"cases", CasesOf(h, library)},
                          {"fix", Shorten(h.cause->fix, fix)}});
  }
  Json timeline = Json::array();
  for (const Moment& moment : Thinned(d.timeline, extent.moments)) {
    timeline.push_back({{"step", moment.step}, {"what", Shorten(moment.what, extent.sentence)}});
  }
  return {{"verdict", d.verdict},
          {"headline", d.headline},
          {"first_bad", d.first_bad ? FirstBadJson(*d.first_bad, extent) : Json(nullptr)},
          {"hypotheses", std::move(hypotheses)},
          {"hypotheses_left_out",
           d.hypotheses.size() - std::min(extent.hypotheses, d.hypotheses.size())},
          {"observations", Cut(d.observations, 6, extent.sentence)},
          {"code", CodeJson(facts)},
          {"code_findings", facts.findings.size()},
          {"timeline", std::move(timeline)},
          {"next_measurement", d.next_measurement},
          {"limits", Cut(d.limits, extent.limits, extent.sentence)},
          {"run", subject.run.empty() ? Json(nullptr) : Json(subject.run)},
          {"name", subject.name}};
}

std::string CodeText(const Facts& facts) {
  if (facts.findings.empty()) return "";
  std::string text = "\nIn the code (static_check):\n";
  for (size_t i = 0; i < std::min(kCodeFindings, facts.findings.size()); ++i) {
    const StaticFinding& finding = facts.findings[i];
    text += "- " + finding.place + " " + finding.severity + " [" + finding.rule + "]" +
            (finding.near_source ? ", beside the producer: " : ", not at the producer: ") +
            finding.message + "\n";
  }
  if (facts.findings.size() > kCodeFindings) {
    text += "- and " + std::to_string(facts.findings.size() - kCodeFindings) + " more findings.\n";
  }
  return text;
}

std::string CausesText(const Diagnosis& d, const Extent& extent) {
  if (d.hypotheses.empty()) return "";
  const auto told_above = [&](const std::string& sentence) {
    return std::find(d.observations.begin(), d.observations.end(), sentence) !=
           d.observations.end();
  };
  const auto name = [](const Hypothesis& h) {
    return h.cause->title + " [" + h.cause->id + "], confidence " +
           runs::Number(Rounded(h.confidence), 2);
  };
  std::string text = "\nCauses, most likely first:\n";
  const double far_behind = kFarBehind * d.hypotheses[0].confidence;
  size_t shown = 0;
  for (; shown < std::min(extent.hypotheses, d.hypotheses.size()); ++shown) {
    const Hypothesis& h = d.hypotheses[shown];
    if (h.confidence < far_behind) break;
    text += std::to_string(shown + 1) + ". " + name(h) + "\n";
    std::vector<std::string> evidence = h.evidence;
    std::erase_if(evidence, told_above);
    for (const std::string& sentence : Cut(evidence, extent.evidence, extent.sentence)) {
      text += "   for: " + sentence + "\n";
    }
    for (const std::string& sentence : Cut(h.against, extent.against, extent.sentence / 2)) {
      text += "   against: " + sentence + "\n";
    }
    text += "   fix: " + Shorten(h.cause->fix, shown == 0 ? extent.fix : extent.other_fix) + "\n";
  }
  const size_t named = std::min(extent.hypotheses, d.hypotheses.size());
  if (shown < named) text += "Far less likely:\n";
  for (; shown < named; ++shown) text += "- " + name(d.hypotheses[shown]) + "\n";
  if (d.hypotheses.size() > shown) {
    text += "and " + std::to_string(d.hypotheses.size() - shown) + " less likely ones.\n";
  }
  return text;
}

std::string BuildText(const Subject& subject, const Facts& facts, const Diagnosis& d,
                      const Extent& extent) {
  std::string verdict = d.verdict;
  std::transform(verdict.begin(), verdict.end(), verdict.begin(), [](char c) {
    return c == '_' ? ' ' : static_cast<char>(c - (c >= 'a' && c <= 'z' ? 32 : 0));
  });
  std::string text = verdict + ": " + d.headline + "\n";
  text += (subject.run.empty() ? "Log: " + subject.name
                               : "Run: " + subject.run + " \"" + subject.name + "\"") +
          "\n";
  if (d.first_bad) {
    const Onset& onset = *d.first_bad;
    text += "\nFirst bad: step " + std::to_string(onset.step);
    if (!onset.phase.empty()) text += ", " + Name(onset.phase);
    text += ": " + onset.what;
    if (!onset.layer_type.empty()) text += " (" + Name(onset.layer_type) + ")";
    if (!onset.source.empty()) text += ", source " + Name(onset.source);
    text += ".\n  " +
            std::string(onset.place == Onset::Place::kProducer    ? "It is the producer: "
                        : onset.place == Onset::Place::kFirstSeen ? "First seen here: "
                                                                  : "Place not known: ") +
            onset.how + ".";
    if (onset.last_clean_sample) {
      text += " Last wholly finite sample: step " + std::to_string(*onset.last_clean_sample) + ".";
    }
    text += "\n";
    if (onset.carrier_count > 0) {
      text += "  Carried on by: ";
      const size_t shown = std::min(extent.carriers, onset.carriers.size());
      for (size_t i = 0; i < shown; ++i) {
        const Carrier& carrier = onset.carriers[i];
        text += (i == 0 ? "" : " → ") + Name(carrier.layer) + " (" + Name(carrier.type) +
                ", step " + std::to_string(carrier.step) + ")";
      }
      const int64_t more = onset.carrier_count - static_cast<int64_t>(shown);
      if (more > 0) text += " and " + std::to_string(more) + " more alerts";
      text += ".\n";
    }
  }
  if (!d.observations.empty()) {
    text += "\nWhat the record shows:\n";
    for (const std::string& sentence : Cut(d.observations, 6, extent.sentence)) {
      text += "- " + sentence + "\n";
    }
  }
  text += CodeText(facts);
  text += CausesText(d, extent);
  if (!d.timeline.empty()) text += "\nTime line:\n";
  for (const Moment& moment : Thinned(d.timeline, extent.moments)) {
    text += "  step " + std::to_string(moment.step) + "  " + Shorten(moment.what, extent.sentence) +
            "\n";
  }
  text += "\nNext measurement: " + d.next_measurement + "\n";
  if (!d.limits.empty()) text += "\nWhat this cannot see:\n";
  for (const std::string& limit : Cut(d.limits, extent.limits, extent.sentence)) {
    text += "- " + limit + "\n";
  }
  if (!d.hypotheses.empty()) {
    text += "\nRead the case: mpnanny://knowledge/" + d.hypotheses[0].cause->id +
            (subject.run.empty() ? "." : "; single alerts: query_alerts.") + "\n";
  }
  return text;
}

}  // namespace

Json DiagnosisJson(const Subject& subject, const Facts& facts, const Diagnosis& diagnosis,
                   const cases::CaseLibrary& library, size_t bytes) {
  Json json;
  for (const Extent& extent : kExtents) {
    json = BuildJson(subject, facts, diagnosis, library, extent);
    if (DumpJson(json).size() <= bytes) break;
  }
  return json;
}

std::string DiagnosisText(const Subject& subject, const Facts& facts, const Diagnosis& diagnosis,
                          size_t bytes) {
  std::string text;
  for (const Extent& extent : kExtents) {
    text = BuildText(subject, facts, diagnosis, extent);
    if (text.size() <= bytes) break;
  }
  return text;
}

Json DiagnosisSchema() {
  const Json texts = {{"type", "string"}};
  const Json carrier = runs::ObjectSchema({{"step", runs::IntegerSchema("Step.")},
                                           {"layer", runs::TextSchema("Layer.")},
                                           {"type", runs::TextSchema("Alert type.")}});
  Json first_bad = runs::OptionalObjectSchema(
      {{"step", runs::IntegerSchema("First bad step.")},
       {"phase",
        runs::TextSchema("data, forward, loss, backward, optimizer; null: not known.", true)},
       {"layer", runs::TextSchema("Module or parameter; null: not known.", true)},
       {"what", runs::TextSchema("What was bad, in words.")},
       {"source", runs::TextSchema("file:line of the layer; null: not known.", true)},
       {"place",
        {{"enum", {"producer", "first_seen", "not_known"}},
         {"description", "How well the layer is known."}}},
       {"how", runs::TextSchema("By what it is known.")},
       {"last_clean_sample", runs::IntegerSchema("Last wholly finite sampled step before.", true)},
       {"carriers", runs::ListSchema(carrier, "Who carried the value on, in order of time.")},
       {"carrier_count", runs::IntegerSchema("All of them.")}},
      "The first bad moment; null if there is none.");
  first_bad["properties"]["ranks"] = runs::ListSchema(
      {{"type", "integer"}}, "Ranks of a distributed run that saw it, the first 16.");
  const Json hypothesis = runs::ObjectSchema(
      {{"cause", runs::TextSchema("Id of a knowledge case; mpnanny://knowledge/{case} tells all.")},
       {"title", runs::TextSchema("Its title.")},
       {"confidence", {{"type", "number"}, {"minimum", 0}, {"maximum", 1}}},
       {"evidence", runs::ListSchema(texts, "What speaks for it, with numbers.")},
       {"against", runs::ListSchema(texts, "What speaks against it.")},
       {"cases", runs::ListSchema(texts, "The case and those related to it.")},
       {"fix", runs::TextSchema("What to do.")}});
  const Json code_finding = runs::ObjectSchema(
      {{"rule", runs::TextSchema("Rule id; mpnanny://rules/{rule} tells all.")},
       {"severity", {{"enum", {"error", "warning", "info"}}}},
       {"place", runs::TextSchema("file:line.")},
       {"message", runs::TextSchema("What is found.")},
       {"near_producer", {{"type", "boolean"}, {"description", "Within 40 lines of it."}}},
       {"cases", runs::ListSchema(texts, "Cases that explain it.")}});
  const Json moment = runs::ObjectSchema(
      {{"step", runs::IntegerSchema("Step.")}, {"what", runs::TextSchema("What happened.")}});
  return runs::ObjectSchema(
      {{"verdict", {{"enum", {"healthy", "broken", "degraded", "not_established"}}}},
       {"headline", runs::TextSchema("The verdict and its reason in a sentence.")},
       {"first_bad", first_bad},
       {"hypotheses", runs::ListSchema(hypothesis, "Causes, most likely first.")},
       {"hypotheses_left_out", runs::IntegerSchema("Less likely ones that did not fit.")},
       {"observations", runs::ListSchema(texts, "What the record shows, with numbers.")},
       {"code", runs::ListSchema(code_finding, "Static findings in `paths`, at most 3.")},
       {"code_findings", runs::IntegerSchema("All of them.")},
       {"timeline", runs::ListSchema(moment, "In order of time.")},
       {"next_measurement", runs::TextSchema("The cheapest one that would decide.")},
       {"limits", runs::ListSchema(texts, "What this diagnosis cannot see.")},
       {"run", runs::TextSchema("Handle; null for a log.", true)},
       {"name", runs::TextSchema("Name of the run or of the log.")}});
}

}  // namespace mpnanny::diagnose_run
