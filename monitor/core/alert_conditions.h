// When an alert fires: one function a condition, over plain facts, in one place.
//
// Each class keeps the history that its conditions need and belongs to the training thread. What
// fires is appended to `out` without layer names being looked up anywhere else: hysteresis is the
// AlertBook's, rows are the Recorder's.
#ifndef MPNANNY_MONITOR_CORE_ALERT_CONDITIONS_H_
#define MPNANNY_MONITOR_CORE_ALERT_CONDITIONS_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "monitor/core/rows.h"
#include "monitor/core/run_history.h"

namespace mpnanny {

using Alerts = std::vector<AlertRow>;

// What is known of a step at its end.
struct StepFacts {
  int64_t step = 0;
  std::optional<double> loss, grad_norm;
  std::optional<double> scale;        // in force during the step
  std::optional<double> scale_after;  // after the scaler's update
  int64_t growth_interval = 2000;
  bool skipped = false;            // by the scaler
  bool has_gradients = false;      // the gradients were read
  bool forward_nonfinite = false;  // a watched module, or the input, was not finite
};

// Loss scale: LOSS_SCALE_LOW, LOSS_SCALE_DECLINE, LOSS_SCALE_COLLAPSE, STEP_SKIPPED. GradScaler
// starts high on purpose and finds its scale by skipping; that search is over after 10 steps in a
// row that were not skipped, 20 that were, or 100 in all.
class ScaleConditions {
 public:
  void Step(const StepFacts& facts, Alerts& out);
  bool searching() const { return searching_; }

  // The bound of LOSS_SCALE_LOW; 0 while no scale has been seen.
  double low_bound() const;
  int skipped_in_a_row() const { return skipped_run_; }

 private:
  bool searching_ = true;
  int64_t steps_ = 0;
  int good_run_ = 0, skipped_run_ = 0;
  int falls_ = 0;
  int64_t collapsed_ = 0;
  double initial_ = 0;
  std::deque<int64_t> skips_;  // recent steps outside the search
};

// Gradients of the whole model: GRAD_EXPLOSION and GRAD_VANISH by norm (every step) and by
// magnitude (samples).
class GradientConditions {
 public:
  explicit GradientConditions(int64_t warmup_steps) : warmup_steps_(warmup_steps) {}
  void Norm(const StepFacts& facts, Alerts& out);
  // `absmax` over all watched gradients of a sample, unscaled; `layer` holds the largest.
  void Magnitude(int64_t step, double absmax, int64_t layer, std::string_view name, Alerts& out);

 private:
  int64_t warmup_steps_;
  RunHistory norms_{256};  // of steps that were not skipped
  double start_ = 0;       // the largest of the warm-up's
};

// LOSS_SPIKE: a finite loss far above the run's own median. Every loss joins the history, so that a
// level that stays high is the new normal after half a window.
class LossSpikes {
 public:
  explicit LossSpikes(int64_t warmup_steps) : warmup_steps_(warmup_steps) {}
  void Step(const StepFacts& facts, Alerts& out);

 private:
  double Ceiling(double median) const;

  int64_t warmup_steps_;
  RunHistory losses_{128};  // short, to follow a loss that falls
  double start_ = 0;        // median of the first losses, as a magnitude
  double ceiling_ = 0;      // as it was a few losses ago
  int64_t fresh_ = -1;      // RunHistory::seen() when the ceiling was computed
};

// LOSS_NAN. An infinite loss in a skipped step with a clean forward, while `scale` (not told of the
// step yet) is still searched for, may be a scaled loss that was logged and is left out for the
// first kDeclineFalls skips in a row. NaN is never left out: no scale makes NaN of a finite loss.
void LossCondition(const StepFacts& facts, const ScaleConditions& scale, Alerts& out);

// What is known of one call of log_mismatch.
struct LogprobFacts {
  int64_t tokens = 0;      // finite on both sides
  int64_t not_finite = 0;  // log-probabilities, of either side
  double k3 = 0;
  double beyond = 0;  // share of the tokens beyond e^±0.5
};

// LOGPROB_MISMATCH, by the same bounds as the verdict of `mpnanny mismatch`.
void LogprobCondition(int64_t step, const LogprobFacts& facts, Alerts& out);

// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string Message(const char* format, ...);

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_ALERT_CONDITIONS_H_
