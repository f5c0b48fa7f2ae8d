// Alerts on single layers over several samples: DEAD_LAYER, STALE_UPDATE; and GRAD_VANISH and
// ABSORPTION, which one sample shows.
//
// Each class keeps the history that its condition needs, by layer id, and belongs to the training
// thread. Names are passed in, so that nothing here looks a layer up.
#ifndef MPNANNY_MONITOR_CORE_ALERT_LAYERS_H_
#define MPNANNY_MONITOR_CORE_ALERT_LAYERS_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "monitor/core/alert_conditions.h"
#include "monitor/core/rows.h"
#include "numerics/format.h"

namespace mpnanny {

// The gradients of one module's own parameters in a sample.
struct LayerGradient {
  int64_t layer = 0;
  std::string_view name;
  double absmax = 0;  // unscaled
};

// DEAD_LAYER. `layers`: the modules that ran in this step and whose parameters have a gradient. A
// module that is missing, or that others outlive by too little, keeps its count.
class DeadLayers {
 public:
  void Sample(int64_t step, std::span<const LayerGradient> layers, Alerts& out);

 private:
  std::unordered_map<int64_t, int> samples_;  // in a row
};

// GRAD_VANISH of single layers, while others are alive (of the whole model: GradientConditions).
void VanishingLayers(int64_t step, std::span<const LayerGradient> layers, Alerts& out);

// What an optimizer step did to the sampled elements of a weight.
struct WeightUpdate {
  int64_t layer = 0;
  std::string_view name;
  DType dtype = DType::kUnknown;
  int64_t frozen = 0;  // had a gradient, and stayed where they were
  int64_t moved = 0;
};

// STALE_UPDATE. Only weights narrower than FP32: in FP32 it takes an update below 6e-8 of the
// weight, which is a small gradient and no fault of the precision.
class StaleUpdates {
 public:
  void Sample(int64_t step, const WeightUpdate& update, Alerts& out);

 private:
  std::unordered_map<int64_t, int> samples_;  // in a row
};

// A module whose output is its input plus what its last submodule gave.
struct Residual {
  int64_t layer = 0;
  std::string_view name;
  int64_t addend_layer = 0;  // the submodule, and its name
  std::string_view addend;
  DType dtype = DType::kUnknown;
  Format judged = Format::kFp16;
  double unchanged = 0;     // share of the input's elements that the sum left as they were
  double addend_zeros = 0;  // share of the addend's elements that are 0 and change nothing
  double input_rms = 0, addend_rms = 0;
};

// ABSORPTION.
void ResidualCondition(int64_t step, const Residual& residual, Alerts& out);

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_ALERT_LAYERS_H_
