#include "tools/query_stats/why_nothing.h"

#include <string_view>

#include "engines/runs/show.h"

namespace mpnanny::query_stats {
namespace {

// A figure of the step that none of the steps has.
std::string WhyNotOfStep(const Question& question, const Answer& answer) {
  const std::string_view name = question.metric->name;
  const std::string steps = runs::Count(answer.steps.looked_at, "step");
  if (name == "loss_scale") {
    return "No loss scale was recorded in " + steps +
           ": no GradScaler was seen to scale a loss. FP32 and BF16 runs need none; an FP16 run "
           "without one loses small gradients. A scaler of your own is shown with "
           "MixedPrecisionNanny(model, scaler=scaler).";
  }
  if (name == "peak_memory") {
    return "No device memory was recorded in " + steps + ": it is, of runs on a GPU.";
  }
  return "No " + std::string(name) + " was recorded in " + steps + ".";
}

}  // namespace

std::string WhyNothing(const Question& question, const Answer& answer) {
  if (answer.steps.looked_at == 0 && question.metric->of_profile) {
    return "No shadow step lies in this range: they are few, and runs of an earlier monitor have "
           "none. run_summary tells whether this run has.";
  }
  if (answer.steps.looked_at == 0) {
    return question.metric->of_step
               ? "No step of this range was recorded. run_summary tells which steps there are."
               : "No sampled step lies in this range. run_summary tells how many there are; "
                 "without `steps` all are asked about.";
  }
  if (question.metric->of_step) return WhyNotOfStep(question, answer);
  return question.kinds == kAllKinds ? "No tensor of these layers has this figure at the steps "
                                       "looked at. Ask for another "
                                       "metric."
                                     : "No tensor of these layers and kinds has this figure at "
                                       "the steps looked at. Leave "
                                       "out `kinds`, or ask for another metric.";
}

}  // namespace mpnanny::query_stats
