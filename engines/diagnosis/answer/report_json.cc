#include <algorithm>

#include "base/text.h"
#include "engines/diagnosis/answer/extent.h"
#include "engines/diagnosis/answer/report.h"
#include "engines/diagnosis/answer/shorten.h"
#include "engines/runs/shadow_text.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Name;

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
  const auto text = [](std::string_view raw) {
    return raw.empty() ? Json(nullptr) : Json(Name(raw));
  };
  constexpr size_t kRanksShown = 16;
  Json json = {{"step", onset.step},
               {"phase", text(onset.phase)},
               // What an optimizer wrote was made by no layer; `what` names whose it is.
               {"layer", onset.phase == Phase::kOptimizer ? Json(nullptr) : text(onset.layer)},
               {"what", onset.what.English()},
               {"source", text(onset.source)},
               {"place", PlaceName(onset.place)},
               {"how", onset.how.English()},
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
// The lines that the measurement points at; none where nothing was measured.
Json LinesJson(const Hypothesis& h, const ShadowEvidence& measured) {
  constexpr size_t kLinesShown = 6;
  Json lines = Json::array();
  for (const std::string& line :
       h.mechanism ? LinesOf(measured.Lead(measured.mechanisms[*h.mechanism]).finding) : h.lines) {
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
    excerpts.push_back(
        {{"source", excerpt.place}, {"first_line", excerpt.first_line}, {"lines", excerpt.lines}});
  }
  return excerpts;
}

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

// What has Chinese words, under the names that BuildJson() gives the same in English.
Json ChineseJson(const Diagnosis& d, const Extent& extent) {
  constexpr runs::Language kChinese = runs::Language::kChinese;
  constexpr size_t kBytes =
      2;  // a Chinese character takes three bytes: the same words need more of them
  const size_t sentence = kBytes * extent.sentence;
  Json hypotheses = Json::array();
  for (const Hypothesis& h : d.hypotheses) {
    if (hypotheses.size() == extent.hypotheses) break;
    const size_t fix = hypotheses.empty() ? extent.fix : extent.other_fix;
    hypotheses.push_back({{"title", Shorten(TitleOf(h, kChinese), sentence)},
                          {"evidence", Cut(h.evidence, extent.evidence, sentence, kChinese)},
                          {"against", Cut(h.against, extent.against, sentence, kChinese)},
                          {"fix", FixOf(h, kBytes * fix, kChinese)}});
  }
  return {
      {"headline", d.headline.In(kChinese)},
      {"first_bad", d.first_bad ? Json({{"what", d.first_bad->what.In(kChinese)}}) : Json(nullptr)},
      {"hypotheses", std::move(hypotheses)},
      {"next_measurement", d.next_measurement.In(kChinese)},
      {"limits", Cut(d.limits, extent.limits, sentence, kChinese)}};
}

Json BuildJson(const Subject& subject, const Facts& facts, const Diagnosis& d,
               const cases::CaseLibrary& library, const Extent& extent) {
  Json hypotheses = Json::array();
  for (const Hypothesis& h : d.hypotheses) {
    if (hypotheses.size() == extent.hypotheses) break;
    const size_t fix = hypotheses.empty() ? extent.fix : extent.other_fix;
    hypotheses.push_back(
        {{"cause", h.cause ? Json(h.cause->id) : Json(nullptr)},
         {"title", Shorten(TitleOf(h), extent.sentence)},
         {"confidence", Rounded(h.confidence)},
         {"basis", h.ground == Ground::kMeasured ? "measured" : "recognised"},
         {"precision", h.precision.empty() ? Json(nullptr) : Json(h.precision.English())},
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
  return {{"verdict", NameOf(d.verdict)},
          {"headline", d.headline.English()},
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
          {"next_measurement", d.next_measurement.English()},
          {"limits", Cut(d.limits, extent.limits, extent.sentence)},
          {"run", subject.run.empty() ? Json(nullptr) : Json(subject.run)},
          {"asked", subject.asked.empty() ? Json(nullptr) : Json(subject.asked)},
          {"name", subject.name}};
}

Json LogLinesJson(const Facts& facts, const Diagnosis& d) {
  Json lines = Json::array();
  for (const runs::LogLines::Line& line : facts.lines.NamedIn(AboutLog(facts, d))) {
    lines.push_back({{"line", line.number}, {"text", line.text}});
  }
  return lines;
}

// What holds sentences, and no names of files.
constexpr const char* kTexts[] = {"headline", "first_bad",        "hypotheses", "observations",
                                  "timeline", "next_measurement", "limits",     "zh"};

}  // namespace

Json DiagnosisJson(const Subject& subject, const Facts& facts, const Diagnosis& diagnosis,
                   const cases::CaseLibrary& library, size_t bytes, bool chinese_too) {
  Json json;
  for (const Extent& extent : kExtents) {
    json = BuildJson(subject, facts, diagnosis, library, extent);
    if (chinese_too) json["zh"] = ChineseJson(diagnosis, extent);
    for (const char* key : kTexts) {
      if (json.contains(key)) facts.lines.Locate(json[key]);
    }
    json["log_lines"] = LogLinesJson(facts, diagnosis);
    if (DumpJson(json).size() <= bytes) break;
  }
  return json;
}

}  // namespace mpnanny::diagnosis
