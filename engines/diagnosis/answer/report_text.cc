#include <algorithm>
#include <cctype>

#include "base/layer_word.h"
#include "base/text.h"
#include "engines/diagnosis/answer/extent.h"
#include "engines/diagnosis/answer/report.h"
#include "engines/diagnosis/answer/shorten.h"
#include "engines/diagnosis/causes/causes.h"
#include "engines/diagnosis/summary/verdict_words.h"
#include "engines/runs/operator_words.h"
#include "engines/runs/relation_text.h"
#include "engines/runs/shadow_text.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Name;

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

// "Tested: …" and "Not tested: …": what the verdict rests on.
std::string TestedText(const Diagnosis& d) {
  std::string text;
  if (!d.tested.empty()) text += "\nTested: " + Join(d.tested, "; ") + ".\n";
  if (!d.not_tested.empty()) text += "Not tested: " + Join(d.not_tested, "; ") + ".\n";
  return text;
}

// What was measured beside the first cause, which has its own lines.
std::string ShadowText(const Facts& facts, const Diagnosis& d, const Extent& extent) {
  const ShadowEvidence& measured = facts.measured;
  const auto is_told = [&](size_t mechanism) {
    const size_t named = std::min(extent.hypotheses, d.hypotheses.size());
    return std::any_of(d.hypotheses.begin(), d.hypotheses.begin() + static_cast<ptrdiff_t>(named),
                       [&](const Hypothesis& h) { return h.mechanism == mechanism; });
  };
  std::string text;
  size_t shown = 0;
  const auto add = [&](const MeasuredFinding& each) {
    if (shown++ < extent.shadow) {
      text += "- " + runs::FindingLine(each.finding, each.module, 1) + "\n";
    }
  };
  for (size_t i = 0; i < measured.mechanisms.size(); ++i) {
    if (is_told(i)) continue;
    for (const size_t index : measured.mechanisms[i].findings) add(measured.findings[index]);
  }
  for (const MeasuredFinding& each : measured.minor) add(each);
  const size_t more =
      (shown > extent.shadow ? shown - extent.shadow : 0) + static_cast<size_t>(measured.left_out);
  if (more > 0) text += "- and " + std::to_string(more) + " more (run_summary, query_alerts).\n";
  return text.empty() ? "" : "\nAlso measured:\n" + text;
}

std::string Sure(const Hypothesis& h) {
  return std::string(h.ground == Ground::kMeasured ? "measured" : "only recognised") +
         ", confidence " + runs::Number(Rounded(h.confidence), 2);
}

// The call that is wrong, where the title does not say it.
std::string CallText(const Hypothesis& h) {
  if (h.mechanism || h.lines.empty()) return "";
  const std::string line = EscapeControl(h.lines.front(), 200);
  return TitleOf(h).find(line) == std::string::npos ? ", called at " + line : "";
}

std::string CaseName(const Hypothesis& h) { return h.cause ? " [" + h.cause->id + "]" : ""; }

// The first lines: how the run is, why, how sure that is, and what to change.
std::string HeadText(const Facts& facts, const Diagnosis& d, const Extent& extent) {
  std::string text =
      summary::VerdictWords(d.verdict, facts.status) + ": " + d.reason.English() + "\n";
  if (d.verdict == Health::kHealthy) return text;
  if (!IsEstablished(d.hypotheses)) {
    const std::string next = d.next_measurement.English();
    return text + "The cause is not established" +
           (next.size() > extent.head
                ? "; what would decide it stands under \"Next measurement\".\n"
                : ". To decide it: " + next + "\n");
  }
  const Hypothesis& first = d.hypotheses[0];
  text += "Cause (" + Sure(first) + "): " + Shorten(TitleOf(first), extent.sentence) +
          CaseName(first) + CallText(first) + ".";
  if (!first.precision.empty()) text += " " + first.precision.English();
  return text + "\nTo change: " + FixOf(first, extent.head) + "\n";
}

std::string EvidenceText(const Hypothesis& h, const Diagnosis& d, const Extent& extent,
                         const std::string& margin) {
  std::vector<runs::Sentence> evidence = h.evidence;
  const std::string title = TitleOf(h), reason = d.reason.English();
  std::erase_if(evidence, [&](const runs::Sentence& sentence) {
    const std::string text = sentence.English();
    return text == title || reason.find(text) != std::string::npos ||
           std::find(d.observations.begin(), d.observations.end(), sentence) !=
               d.observations.end();
  });
  std::string text;
  for (const std::string& sentence : Cut(evidence, extent.evidence, extent.sentence)) {
    text += margin + sentence + "\n";
  }
  for (const std::string& sentence : Cut(h.against, extent.against, extent.sentence / 2)) {
    text += margin + "Against it: " + sentence + "\n";
  }
  return text;
}

// Causes behind the first one that were measured; then what is only recognised, a line each.
std::string CausesText(const Diagnosis& d, const Extent& extent) {
  if (d.hypotheses.empty()) return "";
  const bool established = IsEstablished(d.hypotheses);
  const size_t named = std::min(extent.hypotheses, d.hypotheses.size());
  std::string text, causes, possible;
  if (established) {
    const Hypothesis& first = d.hypotheses[0];
    text = "\nWhy this cause:\n" + EvidenceText(first, d, extent, "- ");
    if (const std::string whole = FixOf(first, extent.fix); whole.size() > extent.head) {
      text += "- The whole fix: " + whole + "\n";
    }
  }
  for (size_t i = established ? 1 : 0; i < named; ++i) {
    const Hypothesis& h = d.hypotheses[i];
    const std::string name =
        "- " + Shorten(TitleOf(h), extent.sentence) + CaseName(h) + ", " +
        (h.ground == Ground::kMeasured ? Sure(h) : runs::Number(Rounded(h.confidence), 2)) + "\n";
    if (h.ground == Ground::kRecognised) {
      possible += name;
      if (i == 0)
        possible += EvidenceText(h, d, extent, "  ") +
                    "  If it is this: " + FixOf(h, extent.other_fix) + "\n";
      continue;
    }
    causes += name + EvidenceText(h, d, extent, "  ") +
              "  To change: " + FixOf(h, extent.other_fix) + "\n";
  }
  if (!causes.empty()) {
    text += established ? "\nOther causes that were measured:\n"
                        : "\nMeasured, and not sure to be the cause:\n";
    text += causes;
  }
  if (!possible.empty()) {
    text += "\nPossible explanations, recognised by signs that others share and not measured:\n" +
            possible;
  }
  if (d.hypotheses.size() > named) {
    text += "and " + std::to_string(d.hypotheses.size() - named) + " less likely ones.\n";
  }
  return text;
}

std::string FirstBadText(const Facts& facts, const Onset& onset, const Extent& extent) {
  std::string text = "\nFirst bad";
  const auto in_log = facts.lines.Of(onset.step);
  if (facts.numbered || facts.summary.steps > 0) text += ": step " + std::to_string(onset.step);
  if (in_log && facts.lines.say_their_steps()) text += " (line " + std::to_string(*in_log) + ")";
  if (!onset.phase.empty()) text += ", " + Name(onset.phase);
  text += ": ";
  // The first lines have the whole sentence already.
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
  if (onset.carrier_count == 0) return text;
  text += "  Carried on by: ";
  const size_t shown = std::min(extent.carriers, onset.carriers.size());
  for (size_t i = 0; i < shown; ++i) {
    const Carrier& carrier = onset.carriers[i];
    text += (i == 0 ? "" : " → ") + LayerWord(Name(carrier.layer)) + " (" + Name(carrier.type) +
            ", step " + std::to_string(carrier.step) + ")";
  }
  const int64_t more = onset.carrier_count - static_cast<int64_t>(shown);
  if (more > 0) text += " and " + std::to_string(more) + " more alerts";
  return text + ".\n";
}

std::string SubjectText(const Subject& subject) {
  std::string text = subject.run.empty() ? "Log: " + subject.name
                                         : "Run: " + subject.run + " \"" + subject.name + "\"";
  if (!subject.started.empty()) text += ", started " + subject.started;
  if (!subject.folder.empty()) text += ", code in " + subject.folder;
  text += "\n";
  if (!subject.asked.empty()) text += "Asked about: " + subject.asked + "\n";
  return text;
}

// Names of files in `folder` as they are seen from there.
std::string From(const std::string& folder, const std::string& text) {
  if (folder.empty()) return text;
  const std::string prefix = folder + "/";
  std::string shorter;
  for (size_t at = 0; at < text.size();) {
    const size_t next = std::min(text.find(prefix, at), text.size());
    shorter += text.substr(at, next - at);
    at = next;
    if (at == text.size()) break;
    const char before = at == 0 ? ' ' : text[at - 1];
    const bool whole = !std::isalnum(static_cast<unsigned char>(before)) && before != '_' &&
                       before != '.' && before != '-';
    if (!whole) shorter += prefix;
    at += prefix.size();
  }
  return shorter;
}

// The lines of the log that the first ones are about, word for word.
std::string InLogText(const Facts& facts, const Diagnosis& d) {
  std::string text;
  for (const runs::LogLines::Line& line : facts.lines.NamedIn(AboutLog(facts, d))) {
    text += "  line " + std::to_string(line.number) + ": \"" + line.text + "\"\n";
  }
  return text.empty() ? "" : "\nIn the log:\n" + text;
}

std::string FindingsText(const Subject& subject, const Facts& facts, const Diagnosis& d,
                         const Extent& extent) {
  std::string text;
  if (d.first_bad) text += FirstBadText(facts, *d.first_bad, extent);
  text += CausesText(d, extent) + ShadowText(facts, d, extent);
  std::vector<runs::Sentence> shown = d.observations;
  const std::string reason = d.reason.English();
  std::erase_if(shown, [&](const runs::Sentence& sentence) {
    return reason.find(sentence.English()) != std::string::npos;
  });
  if (!shown.empty()) {
    text += "\nWhat the record shows:\n";
    for (const std::string& sentence : Cut(shown, 6, extent.sentence)) {
      text += "- " + sentence + "\n";
    }
  }
  text += ExcerptsText(facts, extent) + CodeText(facts);
  if (!d.timeline.empty()) text += "\nTime line:\n";
  for (const Moment& moment : Thinned(d.timeline, extent.moments)) {
    text += "  step " + std::to_string(moment.step) + "  " + Shorten(moment.what, extent.sentence) +
            "\n";
  }
  text += TestedText(d);
  if (d.verdict == Health::kHealthy || IsEstablished(d.hypotheses) ||
      d.next_measurement.English().size() > extent.head) {
    text += "\nNext measurement: " + d.next_measurement.English() + "\n";
  }
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

std::string BuildText(const Subject& subject, const Facts& facts, const Diagnosis& d,
                      const Extent& extent) {
  return facts.lines.Located(From(subject.folder, HeadText(facts, d, extent))) +
         SubjectText(subject) + InLogText(facts, d) +
         facts.lines.Located(From(subject.folder, FindingsText(subject, facts, d, extent)));
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
