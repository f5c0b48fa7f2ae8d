#include "monitor/core/weight_observer.h"

#include <string>
#include <string_view>
#include <utility>

#include "base/layer_word.h"
#include "monitor/core/json_text.h"

namespace mpnanny {
namespace {

// -Inf is a mask; a buffer all of whose elements are infinite has been reset, as those that keep a
// minimum are. Running statistics are never that.
bool IsMeant(std::string_view buffer, const TensorStats& stats) {
  if (stats.nan > 0 || buffer.ends_with("running_var") || buffer.ends_with("running_mean"))
    return false;
  return stats.posinf == 0 || stats.posinf == stats.numel;
}

}  // namespace

void WeightObserver::Observe(std::span<const ParameterView> weights) {
  for (const ParameterView& weight : weights) {
    const Layer& here = layers_.at(weight.layer);
    const bool watched = samples_.Watches(TensorKind::kWeight);
    const Measured measured = watched ? samples_.Measure(weight.view, TensorKind::kWeight)
                                      : Measured{ComputeStats(weight.view)};
    const TensorStats& stats = measured.stats;
    if (watched) samples_.Add(weight.layer, TensorKind::kWeight, 0, weight.view, measured, {});
    const bool buffer = here.type == kBufferType;
    if (stats.nonfinite() == 0) {
      was_finite_[weight.layer] = 1;
    } else if (buffer && IsMeant(here.name, stats)) {
      continue;
    } else if (was_finite_.Get(weight.layer) && findings_.empty()) {
      // Not what was never finite: a mask, an observer that has seen nothing yet.
      was_finite_[weight.layer] = 0;
      NonFiniteFinding finding;
      finding.layer = weight.layer;
      finding.phase = buffer ? Phase::kForward : Phase::kOptimizer;  // modules write buffers
      finding.kind = TensorKind::kWeight;
      finding.stats = stats;
      finding.producer = true;
      finding.message = LayerWord(here.name) + (buffer ? ": the buffer" : ": the weight") +
                        " has " + std::to_string(stats.nonfinite()) + " of " +
                        std::to_string(stats.numel) +
                        " elements that are not finite; it was finite in the last sample, and the "
                        "forward pass of this step is.";
      JsonObject detail;
      detail.Text("where", "weights");
      AddCounts(stats, detail);
      finding.detail = detail.Take();
      findings_.Add(std::move(finding));
    }
  }
}

}  // namespace mpnanny
