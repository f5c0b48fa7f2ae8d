// What the front hands over while a step goes on and when it ends, as plain values.
//
// Tensors in them are borrowed for the call.
#ifndef MPNANNY_MONITOR_CORE_STEP_INPUTS_H_
#define MPNANNY_MONITOR_CORE_STEP_INPUTS_H_

#include <cstdint>
#include <optional>
#include <span>

#include "numerics/tensor_stats.h"

namespace mpnanny {

// A parameter's gradient or value, with the layer that stands for it.
struct ParameterView {
  int64_t layer = 0;
  TensorView view;
};

// One tensor of an optimizer's state. `slot` names it (see the catalogue); `eps` is what the
// optimizer adds to the root of it, 0 for a state without.
struct StateView {
  int64_t layer = 0;
  int32_t slot = 0;
  double eps = 0;
  TensorView view;
};

// The inputs and outputs of a call as tensors that may have been met before in this step: a number
// for each, the same for the same tensor with the same content; 0 where that is not known.
struct Tickets {
  std::span<const uint64_t> inputs, outputs;
};

// What is known when a step ends.
struct StepEnd {
  double at = 0;
  std::optional<double> duration, loss, lr, scale, scale_after;
  int64_t growth_interval = 2000;
  bool skipped = false;
  std::optional<int64_t> peak_memory;
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_STEP_INPUTS_H_
