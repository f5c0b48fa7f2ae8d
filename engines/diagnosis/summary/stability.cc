#include "engines/diagnosis/summary/stability.h"

#include <algorithm>
#include <cmath>

#include "engines/runs/alerts.h"
#include "engines/runs/ranks.h"
#include "engines/runs/shadow.h"
#include "engines/runs/show.h"

namespace mpnanny::summary {
namespace {

using runs::Count;
using runs::Number;

// A loss that ends at twice its start and thrice its least value has diverged, whatever its units.
constexpr double kRoseOverStart = 2;
constexpr double kRoseOverLeast = 3;

std::string Interrupted(const runs::Run& run) {
  switch (run.status) {
    case runs::Status::kException:
      return "The training ended with an exception.";
    case runs::Status::kKilled:
      if (run.end_reason == EndReason::kSignal) {
        return kEndedBySignal;
      }
      return "The training process was killed or went away without closing the run.";
    default:
      return "";
  }
}

// What shadow steps measured decides like an ERROR, so that summary and diagnosis say the same.
bool IsMeasured(const AlertGroup& group) {
  return runs::IsShadowAlert(group.type) && runs::SeverityRank(group.severity) == 1;
}

void AddMeasuredReason(const Summary& s, std::vector<std::string>& reasons) {
  std::string types;
  for (const AlertGroup& group : s.alerts) {
    if (!IsMeasured(group)) continue;
    if (!types.empty()) types += ", ";
    types += runs::Name(group.type) + " from step " + std::to_string(group.first_step);
  }
  if (!types.empty()) reasons.push_back("Shadow steps measured a fault: " + types + ".");
}

// "2 ERROR alerts: NAN from step 5, INF from step 6."; nothing if there is none.
void AddAlertReason(const Summary& s, int rank, std::vector<std::string>& reasons) {
  std::string types;
  int64_t rows = 0;
  for (const AlertGroup& group : s.alerts) {
    const int64_t count = group.count - group.discarded;
    if (runs::SeverityRank(group.severity) != rank || IsMeasured(group) || count == 0) continue;
    rows += count;
    if (!types.empty()) types += ", ";
    types += runs::Name(group.type) + " from step " + std::to_string(group.first_step);
  }
  if (rows == 0) return;
  reasons.push_back(Count(rows, rank == 0 ? "ERROR alert" : "WARNING alert") + ": " + types + ".");
}

}  // namespace

ScaleState JudgeScale(const Summary& s) {
  if (!s.scale_first || !s.scale_last) return ScaleState::kNone;
  // At or below 1 a scaler no longer lifts gradients; it may pass there by design but must come
  // back.
  if (*s.scale_last <= 1 && (s.skipped_at_end > 2 || s.scale_falls > s.scale_rises + 2)) {
    return ScaleState::kCollapsed;
  }
  const double low = std::max(128.0, *s.scale_first / 100);
  if (*s.scale_last < *s.scale_first && *s.scale_last < low && s.scale_falls >= 5) {
    return ScaleState::kDeclining;
  }
  return ScaleState::kHealthy;
}

int64_t SearchSkips(const Summary& s) {
  return s.scale_first && s.skipped_at_start <= 2 * kStartupSkips ? s.skipped_at_start : 0;
}

runs::Sentence SkipsApart(const Summary& s) {
  const int64_t search = SearchSkips(s);
  if (search == 0) return {};
  return {runs::Form(" ({0} while the scale was searched at the start, {1} later)",
                     "（其中 {0} 步在开始时寻找缩放，{1} 步在之后）"),
          {search, s.skipped_steps - search}};
}

bool TooManySkips(const Summary& s) {
  // A log prints a step now and then, and every one that is skipped.
  const int64_t passed = s.last_step && s.first_step ? *s.last_step - *s.first_step + 1 : 0;
  return s.skipped_steps - SearchSkips(s) > kStartupSkips + std::max(s.steps, passed) / 200 ||
         (s.skipped_at_end > kStartupSkips / 2 && s.skipped_at_end < s.steps);
}

bool TooManyBadGradients(const Summary& s) {
  if (s.scale_first || s.skipped_steps > 0) return false;  // a scaler's skips tell
  return s.nonfinite_gradient_steps > kStartupSkips + s.steps / 200 ||
         s.nonfinite_gradients_at_end > 0;
}

namespace {

// Of the steps' first and last stretch; true where no norm was recorded.
bool NormsGrew(const Summary& s) {
  constexpr double kGrew = 3;
  if (s.course.empty()) return true;
  const Stretch &first = s.course.front(), &last = s.course.back();
  if (first.norms == 0 || last.norms == 0) return true;
  return last.norm_sum / static_cast<double>(last.norms) >
         kGrew * first.norm_sum / static_cast<double>(first.norms);
}

}  // namespace

bool LossRose(const Summary& s) {
  if (s.finite_losses < kLossesForTrend || !s.loss_start || !s.loss_end) return false;
  // A loss that is 0 or negative at times has no level of its own (a policy's, an adversary's):
  // there gradients must have grown with it.
  if (*s.loss_min <= 0 && !NormsGrew(s)) return false;
  const double start = std::max(std::fabs(*s.loss_start), 1e-12);
  return *s.loss_end - *s.loss_start > (kRoseOverStart - 1) * start &&
         *s.loss_end > kRoseOverLeast * std::fabs(*s.loss_min);
}

runs::Sentence DiscardedText(const Summary& s) {
  return {runs::Form("Gradients were not finite in {0:step}, first at step {1}, and did not come "
                     "into the weights: losses stayed finite and later gradients are.",
                     "有 {0} 步的梯度非有限，首次在第 {1} 步，并且没有进入权重："
                     "损失一直有限，之后的梯度也是有限的。"),
          {s.nonfinite_gradient_steps, *s.first_nonfinite_gradient}};
}

void JudgeStability(const runs::Run& run, Summary& s) {
  const std::string interrupted = Interrupted(run);
  if (s.steps == 0) {
    const bool judged =
        s.verdict.verdict == Health::kBroken || s.verdict.verdict == Health::kDegraded;
    if (judged) s.stable = false;
    s.reasons.push_back(judged ? s.verdict.headline : "No step was recorded.");
    if (!interrupted.empty()) s.reasons.push_back(interrupted);
    return;
  }
  std::vector<std::string>& bad = s.reasons;
  if (s.nonfinite_losses > 0) {
    bad.push_back("The loss is not finite in " + Count(s.nonfinite_losses, "step") +
                  ", first at step " + std::to_string(*s.first_nonfinite_loss) +
                  (s.first_nonfinite_ranks.empty()
                       ? ""
                       : " on " + runs::RanksText(s.first_nonfinite_ranks, run.world_size)) +
                  ".");
  }
  AddAlertReason(s, 0, bad);
  AddMeasuredReason(s, bad);
  if (TooManyBadGradients(s)) {
    bad.push_back("Gradients are not finite in " + Count(s.nonfinite_gradient_steps, "step") +
                  ", first at step " + std::to_string(*s.first_nonfinite_gradient) +
                  ", and no loss scaler skipped them.");
  }
  const ScaleState scale = JudgeScale(s);
  if (scale == ScaleState::kCollapsed || scale == ScaleState::kDeclining) {
    bad.push_back(std::string("The loss scale ") +
                  (scale == ScaleState::kCollapsed ? "collapsed" : "keeps falling") + ": " +
                  Number(s.scale_first) + " at first, " + Number(s.scale_last) + " at the end, " +
                  Count(s.scale_falls, "fall") + ", " + Count(s.scale_rises, "rise") + ".");
  }
  if (TooManySkips(s)) {
    bad.push_back(
        Count(s.skipped_steps, "optimizer step") + " of " + std::to_string(s.steps) +
        (s.skipped_steps == 1 ? " was" : " were") + " skipped" + SkipsApart(s).English() +
        (s.skipped_at_end > 2 ? ", among them the last " + std::to_string(s.skipped_at_end) : "") +
        ".");
  }
  if (LossRose(s)) {
    bad.push_back("The loss rose: about " + Number(s.loss_start) + " at first, about " +
                  Number(s.loss_end) + " at the end, least " + Number(s.loss_min) + " at step " +
                  std::to_string(*s.loss_min_step) + ".");
  }
  s.stable = bad.empty();
  if (*s.stable) {
    s.reasons.push_back(s.loss_last ? "Every recorded loss is finite: " + Number(s.loss_first) +
                                          " at first, " + Number(s.loss_last) + " at the end."
                                    : "No loss was recorded; nothing else speaks against the run.");
    s.reasons.push_back("No ERROR alert in " + Count(s.steps, "step") + ".");
    if (s.nonfinite_gradient_steps > 0 && !s.scale_first) {
      s.reasons.push_back(DiscardedText(s).English());
    }
    if (scale == ScaleState::kHealthy) {
      s.reasons.push_back("The loss scale is in order: " + Number(s.scale_last) + ", " +
                          Count(s.scale_falls, "fall") + ", " + Count(s.scale_rises, "rise") + ".");
    }
  }
  AddAlertReason(s, 1, s.reasons);  // they do not decide, but are to be known
  if (!s.verdict.verdict) {
    if (!interrupted.empty()) s.reasons.push_back(interrupted);
    return;
  }
  // What the record shows beside it are the reasons that follow.
  s.reasons.insert(s.reasons.begin(), s.verdict.headline);
  if (s.verdict.verdict != Health::kNotEstablished)
    s.stable = s.verdict.verdict == Health::kHealthy;
  const bool told = s.verdict.verdict == Health::kHealthy;  // its headline tells how a run ended
  if (!interrupted.empty() && !told) s.reasons.push_back(interrupted);
}

}  // namespace mpnanny::summary
