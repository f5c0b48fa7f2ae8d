#include "tools/diagnose_run/verdict.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "tools/diagnose_run/causes.h"
#include "tools/diagnose_run/fault_place.h"
#include "tools/diagnose_run/masked.h"
#include "tools/diagnose_run/measured_text.h"
#include "tools/run_summary/stability.h"
#include "tools/run_summary/step_fold.h"
#include "tools/runs/shadow_text.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

using runs::Count;
using runs::Number;

constexpr int64_t kLeastSteps = 3;  // below that nothing can be called healthy
constexpr auto kLossesOfMean = static_cast<int64_t>(run_summary::StepFold::kTrendWindow);
// Weights of `log:` signals (knowledge/README.md): 3 all but proves its case.
constexpr double kErrorWeight = 4, kSignWeight = 2;
constexpr size_t kMostNotes = 2;
// A loss that fell by this share learns; warnings about lost gradients then do not decide.
constexpr double kLearns = 0.05;

// Warnings that matter by themselves if the loss does not fall either.
bool LearnsNothing(const Facts& facts) {
  const run_summary::Summary& s = facts.summary;
  const bool warned = std::any_of(facts.alerts.begin(), facts.alerts.end(), [](const SeenAlert& a) {
    return a.row.type == "GRAD_VANISH" || a.row.type == "DEAD_LAYER" ||
           a.row.type == "STALE_UPDATE" || (a.row.type == "UNDERFLOW" && a.row.phase == "backward");
  });
  if (!warned || !s.loss_start || !s.loss_end || s.finite_losses < 40) return false;
  // A loss that goes below 0 (a policy's, a likelihood's) does not measure what is left to learn.
  if (s.loss_min && *s.loss_min < 0) return false;
  return *s.loss_end > *s.loss_start - kLearns * std::fabs(*s.loss_start);
}

bool HasExplosion(const Facts& facts) {
  return std::any_of(facts.alerts.begin(), facts.alerts.end(), [&](const SeenAlert& alert) {
    return alert.row.type == "GRAD_EXPLOSION" && alert.row.severity == "ERROR" &&
           !(facts.summary.loss_start &&
             WasGotOver(facts, alert.row.step, *facts.summary.loss_start));
  });
}

// Skipped steps in a row that are not a scaler's search for its scale; nullptr: there are none. A log
// has a line of each skipped step and of few others, so that shares of them mean nothing.
const Burst* LongBurst(const Turns& turns) {
  constexpr int64_t kLong = 4;  // the scale has fallen to a sixteenth
  const auto burst = std::find_if(turns.bursts.begin(), turns.bursts.end(), [](const Burst& each) {
    return !each.scalers_own && each.steps >= kLong;
  });
  return burst == turns.bursts.end() ? nullptr : &*burst;
}

// Whether the exception that ended the training is a documented one, or says itself what it met.
bool IsKnownFailure(const Facts& facts) {
  if (!OutOfRangeText(*facts.protocol.failed).empty()) return true;
  return std::any_of(facts.log_hits.begin(), facts.log_hits.end(),
                     [](const LogHit& hit) { return hit.raised && hit.weight >= kSignWeight; });
}

// The strongest telling line of the log or the question; nullptr below the weight that matters.
const LogHit* StrongestHit(const Facts& facts, double least) {
  const LogHit* best = nullptr;
  for (const LogHit& hit : facts.log_hits) {
    if (hit.telling && hit.weight >= least && (!best || hit.weight > best->weight)) best = &hit;
  }
  return best;
}

// The same step as under "First bad": what explains the onset may have been measured before it.
std::string FirstStepText(const Facts& facts) {
  const Onset& onset = *facts.onset;
  const Mechanism* mechanism = LeadingMechanism(facts);
  if (mechanism && ExplainsOnset(facts, *mechanism)) {
    const runs::ShadowFinding& lead = facts.measured.Lead(*mechanism).finding;
    const int64_t measured = lead.since.value_or(lead.step);
    if (measured < onset.step) {
      return "first bad step " + std::to_string(measured) + ", and at step " +
             std::to_string(onset.step) + " " + onset.what;
    }
  }
  return "first bad step " + std::to_string(onset.step) + ": " + onset.what;
}

// What does not change the verdict and is worth a look all the same, in the same breath.
void AddNotes(const Facts& facts, const std::vector<Claim>& claims, std::string& headline) {
  std::vector<std::string> notes;
  for (const Claim& claim : claims) {
    if (claim.note) notes.push_back(claim.sentence);
  }
  if (facts.masked) notes.push_back(MaskedText(*facts.masked));
  for (const MeasuredFinding& each : facts.measured.minor) {
    if (notes.size() == kMostNotes) break;
    if (IsWorthALook(each.finding)) notes.push_back(runs::FindingText(each.finding, each.module));
  }
  if (notes.empty()) return;
  if (notes.size() > kMostNotes) notes.resize(kMostNotes);
  headline += notes.size() == 1 ? " One thing to look at: " : " Things to look at: ";
  for (size_t i = 0; i < notes.size(); ++i) headline += (i > 0 ? " " : "") + notes[i];
}

// What a record's rows are. A log has few of a run's steps, and some say no step at all.
const char* UnitOf(const Facts& facts) {
  return facts.monitored ? "step" : facts.numbered ? "logged step" : "logged line";
}

// A log whose loss is 0 to its end, and nothing in it that shows what that means.
std::string ZeroLossText(const Facts& facts) {
  return "The loss is logged as exactly 0 from step " + std::to_string(facts.course.zero_from) +
         " to the end, in " + Count(facts.course.zero_losses, UnitOf(facts)) +
         ", and the log does not show what that means: HF's Trainer logs a loss that is NaN as 0 "
         "(logging_nan_inf_filter), and no gradient norm above 0 stands beside it.";
}

// Of what a whole record began and ended with, not of single steps: two means that share none. Some
// losses need not fall (a policy's, a GAN's): it is said, and judged by nobody.
bool DidNotFall(const run_summary::Summary& s) {
  return s.finite_losses >= 2 * kLossesOfMean && s.loss_start && s.loss_end &&
         *s.loss_end >= *s.loss_start;
}

// What is said of a fall rests on the figures that stand beside it.
std::string LossText(const Facts& facts) {
  const run_summary::Summary& s = facts.summary;
  if (DidNotFall(s)) {
    return ": the loss did not fall (a mean of " + Number(s.loss_start) + " over its first " +
           std::to_string(kLossesOfMean) + " values, " + Number(s.loss_end) +
           " over its last), all finite";
  }
  return ": the loss went from " + Number(s.loss_first) + " to " + Number(s.loss_last) +
         ", all finite" +
         (IsUndone(facts) ? ", after about " + Number(facts.course.loss_low) + " at step " +
                                std::to_string(facts.course.loss_rise_from.value_or(0))
                          : "");
}

// "UserWarning: …", in a log or quoted in a question.
bool IsWarning(const std::string& line) {
  return line.find("Warning") != std::string::npos && line.find("Error") == std::string::npos;
}

// By what the record shows without shadow steps.
void JudgeRecord(const Facts& facts, const std::vector<Claim>& claims, Diagnosis& d) {
  const run_summary::Summary& s = facts.summary;
  const auto say = [&](const char* verdict, std::string headline) {
    d.verdict = verdict;
    d.headline = std::move(headline);
  };
  if (const Claim* replaced = FindClaim(claims, "gradients-replaced");
      replaced && s.nonfinite_losses == 0) {
    return say("degraded", "Nothing stops the run, and it is worse for it. " + replaced->sentence);
  }
  if (facts.onset) {
    const Onset& onset = *facts.onset;
    const std::string first = FirstStepText(facts);
    const bool over = !facts.bad_at_end && facts.good_steps_after > 0;
    const auto stays =
        std::find_if(claims.begin(), claims.end(), [](const Claim& c) { return c.stays; });
    if (stays != claims.end()) return say("broken", stays->sentence);
    const bool loss_touched = s.nonfinite_losses > 0;
    if (!over && (loss_touched || facts.bad_at_end)) {
      const bool ends = s.last_step && *s.last_step <= onset.step;
      return say("broken", "The run broke, " + first +
                               (ends ? ". The record ends there." : ". It did not recover."));
    }
    if (loss_touched) {
      return say("degraded", "The run was hit and went on, " + first + "; " +
                                 Count(s.nonfinite_losses, "loss", "losses") + " of " +
                                 Count(s.steps, "step") + " are not finite.");
    }
    return say("degraded",
               "Values left the range, " + first + ", while the logged loss is finite.");
  }
  // What the training itself ended with is quoted, with its line.
  if (facts.protocol.failed && IsKnownFailure(facts)) {
    return say("broken", FailedCallText(*facts.protocol.failed));
  }
  // A message of this weight is an exception of PyTorch: the training went no further. After a
  // warning it does.
  if (const LogHit* error = StrongestHit(facts, kErrorWeight); error && !IsWarning(error->line)) {
    return say("broken", "A known error was raised: " + EscapeControl(error->line, 200));
  }
  if (s.steps < kLeastSteps) {
    if (const LogHit* sign = StrongestHit(facts, kSignWeight)) {
      return say("degraded", "A line tells of a known fault: " + EscapeControl(sign->line, 200));
    }
    if (facts.protocol.failed) {
      return say("not_established",
                 FailedCallText(*facts.protocol.failed) +
                     (s.steps == 0 ? " No step was recorded before."
                                   : " Only " + Count(s.steps, "step") + " were recorded before."));
    }
    return say("not_established",
               s.steps == 0 ? "No step was recorded, so nothing can be said."
                            : "Only " + Count(s.steps, "step") + " recorded: too few to judge.");
  }
  if (facts.scale.collapsed || facts.scale.stuck) {
    return say("broken", std::string("The loss scale ") +
                             (facts.scale.stuck ? "is stuck" : "collapsed") + " at " +
                             Number(s.scale_min) + "; " + Count(s.skipped_steps, "step") + " of " +
                             std::to_string(s.steps) + " were skipped" +
                             run_summary::SkipsApart(s) + ".");
  }
  if (FindDivergence(facts).again) {
    return say("broken",
               "The run diverged: the loss had fallen to about " + Number(facts.course.loss_low) +
                   " (step " + std::to_string(facts.course.loss_rise_from.value_or(0)) +
                   ") and ends at about " + Number(s.loss_end) +
                   ", and the gradient norm went from about " + Number(facts.course.norm_at_low) +
                   " to " + Number(facts.turns.last_norm) + ".");
  }
  if (run_summary::LossRose(s)) {
    return say("broken", "The run diverged: the loss rose from about " + Number(s.loss_start) +
                             " in its first steps to about " + Number(s.loss_end) +
                             " in its last, in finite numbers.");
  }
  if (facts.scale.declining) {
    return say("degraded", "The loss scale keeps falling: from " + Number(facts.scale.fall_from) +
                               " to " + Number(facts.scale.fall_to) + " without a rise.");
  }
  if (run_summary::TooManySkips(s)) {
    return say("degraded", Count(s.skipped_steps, "optimizer step") + " of " +
                               std::to_string(s.steps) +
                               " were skipped" + run_summary::SkipsApart(s) +
                               ", more than a scaler costs.");
  }
  if (const Burst* burst = facts.monitored ? nullptr : LongBurst(facts.turns)) {
    return say("degraded", Count(burst->steps, "optimizer step") + " in a row were skipped from step " +
                               std::to_string(burst->first) + " on, in the middle of the training.");
  }
  if (run_summary::TooManyBadGradients(s)) {
    return say("degraded", "Gradients were not finite in " +
                               Count(s.nonfinite_gradient_steps, "step") + " of " +
                               std::to_string(s.steps) +
                               ", more than a search for a loss scale costs.");
  }
  if (HasExplosion(facts)) {
    return say("degraded", "Gradients exploded at times; the loss stayed finite.");
  }
  // Mechanisms that are faults whatever the loss does; the surest first.
  const Claim* fault = nullptr;
  for (const Claim& claim : claims) {
    if (claim.fault && (!fault || claim.strength > fault->strength)) fault = &claim;
  }
  if (fault) return say("degraded", fault->sentence);
  if (const auto open =
          std::find_if(claims.begin(), claims.end(), [](const Claim& c) { return c.open; });
      open != claims.end()) {
    return say("not_established",
               "The figures do not say that anything is wrong, and one thing is not "
               "understood. " +
                   open->sentence);
  }
  if (LearnsNothing(facts)) {
    return say("degraded", "The loss does not fall (" + Number(s.loss_start) + " at first, " +
                               Number(s.loss_end) +
                               " at the end) and gradients or updates are lost.");
  }
  if (!s.loss_first && s.sampled_steps == 0 && !s.scale_first) {
    return say("not_established", "Neither a loss nor a loss scale nor statistics were recorded.");
  }
  if (const LogHit* sign = StrongestHit(facts, kSignWeight)) {
    return say("degraded", "The figures do not decide, but a line tells of a known fault: " +
                               EscapeControl(sign->line, 200));
  }
  const Claim* jump = FindClaim(claims, "loss-jumped");
  if (jump && !jump->passing) {
    return say("not_established",
               "This record is too short to be called healthy. " + jump->sentence);
  }
  if (s.skipped_steps == s.steps) {
    if (s.scale_last && *s.scale_last <= 1) {
      return say("broken", "Every one of " + Count(s.steps, "step") +
                               " recorded was skipped, and the loss scale is down to " +
                               Number(s.scale_last) + ".");
    }
    return say("not_established", "All " + Count(s.steps, "step") +
                                      " recorded were skipped: the scaler found no scale yet" +
                                      (s.scale_last ? ", it is at " + Number(s.scale_last) : "") +
                                      ".");
  }
  if (!facts.monitored && s.finite_losses < kLeastSteps) {
    return say("not_established", "The log shows " + Count(s.finite_losses, "loss", "losses") +
                                      ": too few to judge.");
  }
  if (!facts.monitored && facts.course.zero_losses >= kLeastSteps) {
    return say("not_established", ZeroLossText(facts));
  }
  std::string headline = (jump ? "No sign of lasting trouble in " : "No sign of trouble in ") +
                         Count(s.steps, UnitOf(facts));
  if (s.loss_first) headline += LossText(facts);
  headline += ".";
  if (s.nonfinite_gradient_steps > 0 && !s.scale_first && s.skipped_steps == 0) {
    headline += " " + run_summary::DiscardedText(s);
  }
  if (jump) headline += " " + jump->sentence;
  AddNotes(facts, claims, headline);
  if (facts.status == runs::Status::kException || facts.status == runs::Status::kKilled) {
    headline += facts.protocol.failed ? " " + FailedCallText(*facts.protocol.failed)
                : facts.status == runs::Status::kException
                    ? " The training ended with an exception; the recorded numbers do not tell why."
                : facts.ended_by_signal
                    ? std::string(" ") + run_summary::kEndedBySignal
                    : " The process was killed or went away; the recorded numbers do not tell why.";
  }
  say("healthy", std::move(headline));
}

// " do, from step 20 on: "; what the first compared step shows may be older.
std::string FromWhere(const Facts& facts, const runs::ShadowFinding& lead) {
  const int64_t step = lead.since.value_or(lead.step);
  if (!ComparesWithItself(lead) && IsFirstCompared(facts, step)) {
    return " do, from the first compared step on (step " + std::to_string(step) +
           "; earlier steps were not compared): ";
  }
  return lead.since ? " do, from step " + std::to_string(step) + " on: "
                    : " do, first at step " + std::to_string(step) + ": ";
}

}  // namespace

void Judge(const Facts& facts, const std::vector<Claim>& claims, Diagnosis& d) {
  JudgeRecord(facts, claims, d);
  const Mechanism* mechanism = LeadingMechanism(facts);
  if (!mechanism) {
    if (facts.onset && facts.monitored && facts.onset->phase != "data") {
      d.headline += " Whether it is precision is not established: no shadow step shows where it "
                    "comes from.";
    }
    return;
  }
  const std::string measured =
      MeasuredTitle(facts.measured, *mechanism) + ". " + PrecisionSentence(facts.measured, *mechanism);
  const bool silent = d.verdict == "healthy" || d.verdict == "not_established";
  if (!silent && IsAfterDivergence(facts, *mechanism)) return;
  if (silent) {
    const runs::ShadowFinding& lead = facts.measured.Lead(*mechanism).finding;
    d.verdict = "degraded";
    d.headline = std::string("Losses alone show no trouble, but ") +
                 (ComparesWithItself(lead) ? "the run's own values" : "shadow steps") +
                 FromWhere(facts, lead) +
                 measured;
  } else {
    d.headline += " " + measured;
  }
}

}  // namespace mpnanny::diagnose_run
