#include <algorithm>

#include "base/layer_word.h"
#include "base/text.h"
#include "engines/diagnosis/causes.h"
#include "engines/diagnosis/extent.h"
#include "engines/diagnosis/report.h"
#include "engines/diagnosis/shorten.h"
#include "engines/diagnosis/summary/verdict_words.h"
#include "engines/runs/operator_words.h"
#include "engines/runs/relation_text.h"
#include "engines/runs/shadow_text.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Name;

// A cause this much weaker than the best is named in one line: its whole case would only distract.
constexpr double kFarBehind = 0.5;

constexpr size_t kShortWhat = 100;

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

// A documented case that was neither measured nor seen for sure: a name to read up, and no cause.
bool IsOnlySimilar(const Hypothesis& h) {
  return h.cause && !h.mechanism && !h.established && h.confidence <= kProducerKnown;
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
  const size_t more =
      (shown > extent.shadow ? shown - extent.shadow : 0) + static_cast<size_t>(measured.left_out);
  if (more > 0) text += "- and " + std::to_string(more) + " more (run_summary, query_alerts).\n";
  return "\nMeasured by shadow steps and beside them:\n" + text;
}

std::string CausesText(const Diagnosis& d, const Extent& extent) {
  if (d.hypotheses.empty()) return "";
  const auto told_above = [&](const runs::Sentence& sentence) {
    return std::find(d.observations.begin(), d.observations.end(), sentence) !=
           d.observations.end();
  };
  const auto name = [&](const Hypothesis& h) {
    return Shorten(TitleOf(h), extent.sentence) + (h.cause ? " [" + h.cause->id + "]" : "") +
           ", confidence " + runs::Number(Rounded(h.confidence), 2);
  };
  const bool open = !d.hypotheses[0].mechanism && d.hypotheses[0].confidence < kEstablished;
  std::string text =
      open ? "\nDocumented cases that share signs with it, none of them established:\n"
           : "\nCauses, most likely first:\n";
  const double far_behind = kFarBehind * d.hypotheses[0].confidence;
  std::vector<std::string> similar, far;
  const size_t named = std::min(extent.hypotheses, d.hypotheses.size());
  int number = 0;
  for (size_t i = 0; i < named; ++i) {
    const Hypothesis& h = d.hypotheses[i];
    if (i > 0 && IsOnlySimilar(h)) {
      similar.push_back(h.cause->id);
      continue;
    }
    if (h.confidence < far_behind) {
      far.push_back("- " + name(h) + "\n");
      continue;
    }
    text += std::to_string(++number) + ". " + name(h) + "\n";
    std::vector<runs::Sentence> evidence = h.evidence;
    std::erase_if(evidence, told_above);
    for (const std::string& sentence : Cut(evidence, extent.evidence, extent.sentence)) {
      text += "   for: " + sentence + "\n";
    }
    for (const std::string& sentence : Cut(h.against, extent.against, extent.sentence / 2)) {
      text += "   against: " + sentence + "\n";
    }
    text += std::string(open ? "   fix, if it is this: " : "   fix: ") +
            FixOf(h, i == 0 ? extent.fix : extent.other_fix) + "\n";
  }
  if (!far.empty()) text += "Far less likely:\n" + Join(far, "");
  if (d.hypotheses.size() > named) {
    text += "and " + std::to_string(d.hypotheses.size() - named) + " less likely ones.\n";
  }
  if (!similar.empty()) {
    text += "Documented cases that have a sign in common with it, not established here: " +
            Join(similar, ", ") + ".\n";
  }
  return text;
}

std::string BuildText(const Subject& subject, const Facts& facts, const Diagnosis& d,
                      const Extent& extent) {
  std::string text =
      summary::VerdictWords(d.verdict, facts.status) + ": " + d.headline.English() + "\n";
  text += (subject.run.empty() ? "Log: " + subject.name
                               : "Run: " + subject.run + " \"" + subject.name + "\"") +
          (subject.started.empty() ? "" : ", started " + subject.started) + "\n";
  if (!subject.asked.empty()) text += "Asked about: " + subject.asked + "\n";
  if (d.first_bad) {
    const Onset& onset = *d.first_bad;
    text += "\nFirst bad: step " + std::to_string(onset.step);
    if (!onset.phase.empty()) text += ", " + Name(onset.phase);
    text += ": ";
    // The headline has the whole sentence already.
    const std::string what = onset.what.English();
    text += onset.finding && what.size() > kShortWhat
                ? runs::FindingName(facts.measured.findings[*onset.finding].finding)
                : what;
    // What was measured is an operator, and the type is that of the tensor that showed it.
    if (!onset.layer_type.empty() && !onset.finding) text += " (" + Name(onset.layer_type) + ")";
    if (!onset.source.empty()) text += ", source " + Name(onset.source);
    text += ".\n  " +
            std::string(onset.place == Onset::Place::kProducer && onset.finding ? "Measured there: "
                        : onset.place == Onset::Place::kProducer  ? "It is the producer: "
                        : onset.place == Onset::Place::kFirstSeen ? "First seen here: "
                        : onset.source.empty()                    ? "Place not known: "
                                                                  : "Its line is known: ") +
            onset.how.English() + ".";
    if (onset.last_clean_sample) {
      text += " Last wholly finite sample: step " + std::to_string(*onset.last_clean_sample) + ".";
    }
    text += "\n";
    if (onset.carrier_count > 0) {
      text += "  Carried on by: ";
      const size_t shown = std::min(extent.carriers, onset.carriers.size());
      for (size_t i = 0; i < shown; ++i) {
        const Carrier& carrier = onset.carriers[i];
        text += (i == 0 ? "" : " → ") + LayerWord(Name(carrier.layer)) + " (" + Name(carrier.type) +
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
  text += "\nNext measurement: " + d.next_measurement.English() + "\n";
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

std::string DiagnosisText(const Subject& subject, const Facts& facts, const Diagnosis& diagnosis,
                          size_t bytes) {
  std::string text;
  for (const Extent& extent : kExtents) {
    text = BuildText(subject, facts, diagnosis, extent);
    if (text.size() <= bytes) break;
  }
  return text;
}

}  // namespace mpnanny::diagnosis
