#include "tools/diagnose_run/report.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "tools/diagnose_run/shorten.h"
#include "tools/runs/operator_words.h"
#include "tools/runs/shadow_text.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

using runs::Name;

// How much of an answer is told; every step down drops what matters least, until it fits.
struct Extent {
  size_t hypotheses, evidence, against, sentence, fix, other_fix, moments, limits, carriers, shadow,
      excerpts;
};
constexpr Extent kExtents[] = {{6, 8, 6, 600, 3000, 1500, 40, 10, 8, 24, 8},
                               {5, 6, 4, 420, 1100, 300, 16, 8, 6, 4, 4},
                               {4, 5, 3, 340, 800, 220, 14, 6, 4, 3, 3},
                               {3, 4, 2, 280, 600, 160, 10, 5, 3, 2, 2},
                               {2, 3, 2, 220, 400, 120, 8, 4, 2, 1, 1},
                               {1, 3, 1, 160, 300, 80, 6, 3, 1, 1, 0}};

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

Json FirstBadJson(const Onset& onset, const Facts& facts, const Extent& extent) {
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
  Json measured;
  if (onset.finding) {
    measured = runs::FindingJson(facts.measured.findings[*onset.finding].finding, "", false);
  }
  const auto of_measured = [&](const char* key) {
    return onset.finding ? measured[key] : Json(nullptr);
  };
  json["operator"] = of_measured("operator");
  json["precision"] = onset.finding ? measured["precision"] : Json("not_tested");
  json["cure"] = of_measured("cure");
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

// The case itself and those that its page points to; none where no case fits.
Json CasesOf(const Hypothesis& hypothesis, const cases::CaseLibrary& library) {
  if (!hypothesis.cause) return Json::array();
  Json ids = Json::array({hypothesis.cause->id});
  for (const std::string& id : hypothesis.cause->related) {
    if (ids.size() < 4 && library.Find(id)) ids.push_back(id);
  }
  return ids;
}

// A cause is called by what was measured; one that nothing was measured of by its case.
std::string TitleOf(const Hypothesis& h) { return h.mechanism ? h.title : h.cause->title; }

std::string FixOf(const Hypothesis& h, size_t bytes) {
  if (h.fix.empty()) return Shorten(h.cause->fix, bytes);
  if (!h.cause) return Shorten(h.fix, bytes);
  return Shorten(h.fix, bytes) + " The case says: " + Shorten(h.cause->fix, bytes / 2);
}

// The lines that the measurement points at; none where nothing was measured.
Json LinesJson(const Hypothesis& h, const ShadowEvidence& measured) {
  constexpr size_t kLinesShown = 6;
  Json lines = Json::array();
  if (!h.mechanism) return lines;
  for (const std::string& line : LinesOf(measured.Lead(measured.mechanisms[*h.mechanism]).finding)) {
    if (lines.size() < kLinesShown) lines.push_back(EscapeControl(line, 200));
  }
  return lines;
}

Json ShadowJson(const ShadowEvidence& measured, const Extent& extent) {
  Json findings = Json::array();
  for (const Mechanism& mechanism : measured.mechanisms) {
    for (const size_t index : mechanism.findings) {
      if (findings.size() == extent.shadow) return findings;
      const MeasuredFinding& each = measured.findings[index];
      findings.push_back(runs::FindingJson(each.finding, each.module));
    }
  }
  for (const MeasuredFinding& each : measured.minor) {
    if (findings.size() == extent.shadow) break;
    findings.push_back(runs::FindingJson(each.finding, each.module));
  }
  return findings;
}

Json ExcerptsJson(const Facts& facts, const Extent& extent) {
  Json excerpts = Json::array();
  for (const Excerpt& excerpt : facts.excerpts) {
    if (excerpts.size() == extent.excerpts) break;
    excerpts.push_back({{"source", excerpt.place},
                        {"first_line", excerpt.first_line},
                        {"lines", excerpt.lines}});
  }
  return excerpts;
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

constexpr size_t kShortWhat = 100;

double Rounded(double confidence) { return std::round(confidence * 100) / 100; }

Json BuildJson(const Subject& subject, const Facts& facts, const Diagnosis& d,
               const cases::CaseLibrary& library, const Extent& extent) {
  Json hypotheses = Json::array();
  for (const Hypothesis& h : d.hypotheses) {
    if (hypotheses.size() == extent.hypotheses) break;
    const size_t fix = hypotheses.empty() ? extent.fix : extent.other_fix;
    hypotheses.push_back({{"cause", h.cause ? Json(h.cause->id) : Json(nullptr)},
                          {"title", Shorten(TitleOf(h), extent.sentence)},
                          {"confidence", Rounded(h.confidence)},
                          {"evidence", Cut(h.evidence, extent.evidence, extent.sentence)},
                          {"against", Cut(h.against, extent.against, extent.sentence)},
                          {"lines", LinesJson(h, facts.measured)},
                          {"cases", CasesOf(h, library)},
                          {"fix", FixOf(h, fix)}});
  }
  Json timeline = Json::array();
  for (const Moment& moment : Thinned(d.timeline, extent.moments)) {
    timeline.push_back({{"step", moment.step}, {"what", Shorten(moment.what, extent.sentence)}});
  }
  return {{"verdict", d.verdict},
          {"headline", d.headline},
          {"first_bad", d.first_bad ? FirstBadJson(*d.first_bad, facts, extent) : Json(nullptr)},
          {"hypotheses", std::move(hypotheses)},
          {"hypotheses_left_out",
           d.hypotheses.size() - std::min(extent.hypotheses, d.hypotheses.size())},
          {"shadow", ShadowJson(facts.measured, extent)},
          {"observations", Cut(d.observations, 6, extent.sentence)},
          {"tested", d.tested},
          {"not_tested", d.not_tested},
          {"excerpts", ExcerptsJson(facts, extent)},
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

// "   40 | x = a - b", the named line marked.
std::string ExcerptsText(const Facts& facts, const Extent& extent) {
  std::string text;
  for (size_t i = 0; i < std::min(extent.excerpts, facts.excerpts.size()); ++i) {
    const Excerpt& excerpt = facts.excerpts[i];
    text += "\n" + excerpt.place + "\n";
    for (size_t j = 0; j < excerpt.lines.size(); ++j) {
      const std::string number = std::to_string(excerpt.first_line + static_cast<int64_t>(j));
      const bool named = excerpt.place.ends_with(":" + number);
      text += (named ? "> " : "  ") + std::string(5 - std::min<size_t>(5, number.size()), ' ') +
              number + " | " + excerpt.lines[j] + "\n";
    }
  }
  return text;
}

// "Tested: …" and "Not tested: …": what the verdict rests on.
std::string TestedText(const Diagnosis& d) {
  std::string text;
  if (!d.tested.empty()) text += "\nTested: " + Join(d.tested, "; ") + ".\n";
  if (!d.not_tested.empty()) text += "Not tested: " + Join(d.not_tested, "; ") + ".\n";
  return text;
}

std::string ShadowText(const ShadowEvidence& measured, const Extent& extent) {
  std::string text;
  size_t shown = 0;
  for (const Mechanism& mechanism : measured.mechanisms) {
    for (const size_t index : mechanism.findings) {
      if (shown++ >= extent.shadow) continue;
      const MeasuredFinding& each = measured.findings[index];
      text += "- " + runs::FindingLine(each.finding, each.module, 1) + "\n";
    }
  }
  for (const MeasuredFinding& each : measured.minor) {
    if (shown++ >= extent.shadow) break;
    text += "- " + runs::FindingLine(each.finding, each.module, 1) + "\n";
  }
  if (text.empty()) return "";
  const size_t more = (shown > extent.shadow ? shown - extent.shadow : 0) +
                      static_cast<size_t>(measured.left_out);
  if (more > 0) text += "- and " + std::to_string(more) + " more (run_summary, query_alerts).\n";
  return "\nMeasured against FP64 (shadow steps):\n" + text;
}

std::string CausesText(const Diagnosis& d, const Extent& extent) {
  if (d.hypotheses.empty()) return "";
  const auto told_above = [&](const std::string& sentence) {
    return std::find(d.observations.begin(), d.observations.end(), sentence) !=
           d.observations.end();
  };
  const auto name = [&](const Hypothesis& h) {
    return Shorten(TitleOf(h), extent.sentence) + (h.cause ? " [" + h.cause->id + "]" : "") +
           ", confidence " + runs::Number(Rounded(h.confidence), 2);
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
    text += "   fix: " + FixOf(h, shown == 0 ? extent.fix : extent.other_fix) + "\n";
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
    text += ": ";
    // The headline has the whole sentence already.
    text += onset.finding && onset.what.size() > kShortWhat
                ? runs::OperatorWord(facts.measured.findings[*onset.finding].finding.op)
                : onset.what;
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
  text += ShadowText(facts.measured, extent);
  if (!d.observations.empty()) {
    text += "\nWhat the record shows:\n";
    for (const std::string& sentence : Cut(d.observations, 6, extent.sentence)) {
      text += "- " + sentence + "\n";
    }
  }
  text += ExcerptsText(facts, extent) + CodeText(facts);
  text += CausesText(d, extent);
  if (!d.timeline.empty()) text += "\nTime line:\n";
  for (const Moment& moment : Thinned(d.timeline, extent.moments)) {
    text += "  step " + std::to_string(moment.step) + "  " + Shorten(moment.what, extent.sentence) +
            "\n";
  }
  text += TestedText(d);
  text += "\nNext measurement: " + d.next_measurement + "\n";
  if (!d.limits.empty()) text += "\nWhat this cannot see:\n";
  for (const std::string& limit : Cut(d.limits, extent.limits, extent.sentence)) {
    text += "- " + limit + "\n";
  }
  if (!d.hypotheses.empty() && d.hypotheses[0].cause) {
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

}  // namespace mpnanny::diagnose_run
