// How a run went, in one pass over its steps and its alerts.
//
// Plain values; free function.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_SUMMARY_H_
#define MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_SUMMARY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engines/call_context.h"
#include "engines/diagnosis/summary/forecast.h"
#include "engines/diagnosis/summary/format_losses.h"
#include "engines/diagnosis/summary/verdict_words.h"
#include "engines/runs/run.h"
#include "engines/runs/shadow.h"
#include "engines/runs/whole_run.h"

namespace mpnanny::summary {

// What shadow steps found.
struct ShadowSummary {
  int64_t steps = 0;
  std::optional<double> seconds, overhead_share;  // the latter: of the time of all steps
  struct Shown {
    runs::ShadowFinding finding;
    std::string module;  // raw; "" for none
  };
  std::vector<Shown> findings;  // worst first, at most kFindingsShown
  int64_t total = 0;            // all findings
  std::optional<FormatLosses> formats;
  std::vector<std::string> notes;
};
inline constexpr size_t kFindingsShown = 5;

// Alerts of one type and severity.
struct AlertGroup {
  Word<AlertType> type;
  Word<Severity> severity;
  int64_t count = 0;      // rows
  int64_t discarded = 0;  // of them, about gradients that never came into the weights
  int64_t repeats = 0;    // samples in which it was seen
  int64_t first_step = 0;
  std::vector<std::string> layers;  // raw names, in order of time, at most kLayersShown
  int64_t layer_count = 0;          // all of them
};
inline constexpr size_t kLayersShown = 5;

// A stretch of steps, for a curve on one line.
struct Stretch {
  int64_t first_step = 0, steps = 0;
  double loss_sum = 0, loss_squares = 0, loss_max = 0;  // of finite losses
  int64_t losses = 0, nonfinite_losses = 0;
  double norm_sum = 0, norm_squares = 0;  // of finite gradient norms
  int64_t norms = 0;
  std::optional<double> scale;  // least
};
inline constexpr size_t kStretches = 32;  // at most twice as many are kept

struct Summary {
  int64_t steps = 0;
  std::optional<int64_t> first_step, last_step;
  int64_t steps_only_in_ring = 0;
  int64_t sampled_steps = 0;

  // Loss: first and last that were logged (may be NaN), least finite one.
  std::optional<double> loss_first, loss_last, loss_min;
  std::optional<int64_t> loss_first_step;
  std::optional<int64_t> loss_min_step, first_nonfinite_loss;
  int64_t nonfinite_losses = 0;
  std::vector<int64_t> first_nonfinite_ranks;  // of merged ranks, those whose loss it was
  // Means of the first and the last (up to) 20 finite losses: what a trend is told from.
  std::optional<double> loss_start, loss_end;
  int64_t finite_losses = 0;

  std::optional<double> scale_first, scale_last, scale_min, scale_max;
  int64_t scale_rises = 0, scale_falls = 0;
  int64_t skipped_steps = 0,
          skipped_at_end = 0;  // the latter: without a break, up to the last step
  // Of skipped_steps: those without a break from the first step on, until one was made. A scaler
  // looks for its scale there.
  int64_t skipped_at_start = 0;
  std::optional<int64_t> first_skipped, last_skipped;
  int64_t nonfinite_gradient_steps = 0,
          nonfinite_gradients_at_end = 0;  // the latter: without a break, up to the last step
  std::optional<int64_t> first_nonfinite_gradient;

  std::optional<double> lr_last, lr_max, grad_norm_last, grad_norm_max;
  std::optional<double> mean_duration;  // seconds
  double total_duration = 0;            // of the steps whose duration is known
  std::optional<int64_t> peak_memory;   // bytes

  std::optional<int64_t> ended_after;  // the pass, for want of time: later steps were not seen

  std::vector<Forecast> forecasts;  // layers that will leave FP16's range
  std::vector<Stretch> course;      // equal numbers of recorded steps, but for the last
  std::vector<AlertGroup> alerts;   // worst first, then by first step
  ShadowSummary shadow;
  RunVerdict verdict;                // of the whole run; empty for a part of one
  std::optional<bool> stable;        // of the numbers; absent: nothing was recorded
  std::vector<std::string> reasons;  // why, with numbers; most important first
};

// The verdict is the diagnosis' own, which makes the pass over the steps as well. After `limit` the
// steps that were seen by then must do.
Result<Summary> Summarize(const runs::Source& source, const ToolContext& context,
                          CancelToken::Clock::duration limit = runs::kPassTime);

// The rest of a summary of some steps, which a StepFold has folded: its alerts, and what they tell.
Result<void> FinishSummary(const runs::Source& source, Summary& summary);

}  // namespace mpnanny::summary

#endif  // MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_SUMMARY_H_
