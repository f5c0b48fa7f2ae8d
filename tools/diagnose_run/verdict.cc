#include "tools/diagnose_run/verdict.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "tools/diagnose_run/causes.h"
#include "tools/diagnose_run/measured_text.h"
#include "tools/run_summary/stability.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

using runs::Count;
using runs::Number;

constexpr int64_t kLeastSteps = 3;  // below that nothing can be called healthy
// Weights of `log:` signals (knowledge/README.md): 3 all but proves its case.
constexpr double kErrorWeight = 4, kSignWeight = 2;
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
  return *s.loss_end > *s.loss_start - kLearns * std::fabs(*s.loss_start);
}

bool HasErrorOf(const Facts& facts, const char* type) {
  return std::any_of(facts.alerts.begin(), facts.alerts.end(), [&](const SeenAlert& alert) {
    return alert.row.type == type && alert.row.severity == "ERROR";
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

// The strongest telling line of the log or the question; nullptr below the weight that matters.
const LogHit* StrongestHit(const Facts& facts, double least) {
  const LogHit* best = nullptr;
  for (const LogHit& hit : facts.log_hits) {
    if (hit.telling && hit.weight >= least && (!best || hit.weight > best->weight)) best = &hit;
  }
  return best;
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
    const std::string first = "first bad step " + std::to_string(onset.step) + ": " + onset.what;
    const bool over = !facts.bad_at_end && facts.good_steps_after > 0;
    const auto stays =
        std::find_if(claims.begin(), claims.end(), [](const Claim& c) { return c.stays; });
    if (stays != claims.end()) return say("broken", stays->sentence);
    const bool loss_touched = s.nonfinite_losses > 0;
    if (!over && (loss_touched || facts.bad_at_end)) {
      return say("broken", "The run broke, " + first + ". It did not recover.");
    }
    if (loss_touched) {
      return say("degraded", "The run was hit and went on, " + first + "; " +
                                 Count(s.nonfinite_losses, "loss", "losses") + " of " +
                                 Count(s.steps, "step") + " are not finite.");
    }
    return say("degraded",
               "Values left the range, " + first + ", while the logged loss is finite.");
  }
  // A message of this weight is an exception of PyTorch: the training went no further. After a
  // warning it does.
  if (const LogHit* error = StrongestHit(facts, kErrorWeight); error && !IsWarning(error->line)) {
    return say("broken", "A known error was raised: " + EscapeControl(error->line, 200));
  }
  if (facts.protocol.failed && !OutOfRangeText(*facts.protocol.failed).empty()) {
    return say("broken", FailedCallText(*facts.protocol.failed));
  }
  if (s.steps < kLeastSteps) {
    if (const LogHit* sign = StrongestHit(facts, kSignWeight)) {
      return say("degraded", "A line tells of a known fault: " + EscapeControl(sign->line, 200));
    }
    return say("not_established",
               s.steps == 0 ? "No step was recorded, so nothing can be said."
                            : "Only " + Count(s.steps, "step") + " recorded: too few to judge.");
  }
  if (facts.scale.collapsed || facts.scale.stuck) {
    return say("broken", std::string("The loss scale ") +
                             (facts.scale.stuck ? "is stuck" : "collapsed") + " at " +
                             Number(s.scale_min) + "; " + Count(s.skipped_steps, "step") + " of " +
                             std::to_string(s.steps) + " were skipped.");
  }
  if (run_summary::LossRose(s)) {
    return say("broken", "The run diverged: the loss rose from about " + Number(s.loss_start) +
                             " to about " + Number(s.loss_end) + ", in finite numbers.");
  }
  if (facts.scale.declining) {
    return say("degraded", "The loss scale keeps falling: from " + Number(facts.scale.fall_from) +
                               " to " + Number(facts.scale.fall_to) + " without a rise.");
  }
  if (run_summary::TooManySkips(s)) {
    return say("degraded", Count(s.skipped_steps, "optimizer step") + " of " +
                               std::to_string(s.steps) +
                               " were skipped, more than a scaler costs.");
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
  if (HasErrorOf(facts, "GRAD_EXPLOSION")) {
    return say("degraded", "Gradients exploded at times; the loss stayed finite.");
  }
  // Mechanisms that are faults whatever the loss does; the surest first.
  const Claim* fault = nullptr;
  for (const Claim& claim : claims) {
    if (claim.fault && (!fault || claim.strength > fault->strength)) fault = &claim;
  }
  if (fault) return say("degraded", fault->sentence);
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
  std::string headline = "No sign of trouble in " + Count(s.steps, "step");
  if (s.loss_first) {
    headline += ": the loss went from " + Number(s.loss_first) + " to " + Number(s.loss_last) +
                ", all finite";
  }
  headline += ".";
  if (s.nonfinite_gradient_steps > 0 && !s.scale_first && s.skipped_steps == 0) {
    headline += " " + run_summary::DiscardedText(s);
  }
  if (jump) headline += " " + jump->sentence;
  if (facts.status == runs::Status::kException || facts.status == runs::Status::kKilled) {
    headline += facts.protocol.failed
                    ? " " + FailedCallText(*facts.protocol.failed)
                : facts.status == runs::Status::kException
                    ? " The training ended with an exception; the recorded numbers do not tell why."
                    : " The process was killed or went away; the recorded numbers do not tell why.";
  }
  say("healthy", std::move(headline));
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
                 " do, from step " +
                 std::to_string(lead.since.value_or(lead.step)) + " on: " + measured;
  } else {
    d.headline += " " + measured;
  }
}

}  // namespace mpnanny::diagnose_run
