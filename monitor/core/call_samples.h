// Samples of module calls: a leaf's inputs and outputs, and the sums `return x + f(x)` of modules
// with children.
//
// Owns what it needs of the step in progress: which tensors were measured already, and the sums.
// Used by the training thread alone; what it refers to outlives it.
#ifndef MPNANNY_MONITOR_CORE_CALL_SAMPLES_H_
#define MPNANNY_MONITOR_CORE_CALL_SAMPLES_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "monitor/core/alert_layers.h"
#include "monitor/core/run_layers.h"
#include "monitor/core/step_inputs.h"
#include "monitor/core/step_samples.h"

namespace mpnanny {

class CallSamples {
 public:
  CallSamples(const RunLayers& layers, StepSamples& samples) : layers_(layers), samples_(samples) {}

  void Clear();  // when a step begins, and when its samples go

  // A leaf's call in a sampled step; whether an output is not finite. `tickets` spare the reading
  // of an input that is another module's output.
  bool Sample(int64_t layer, int32_t call, std::span<const TensorView> inputs,
              std::span<const TensorView> outputs, const Tickets& tickets);
  // A call of a module with children, whose first output may be its first input plus what its
  // newest child gave.
  void SampleResidual(int64_t layer, const TensorView& in, const TensorView& out);

  void RaiseResiduals(int64_t step, Alerts& out);

 private:
  const TensorStats* Known(uint64_t ticket, std::optional<size_t>& sample) const;
  void Remember(uint64_t ticket, std::optional<size_t> sample);

  const RunLayers& layers_;
  StepSamples& samples_;
  std::array<std::pair<uint64_t, size_t>, 32> known_{};  // ticket, place of its sample
  size_t next_known_ = 0;
  std::vector<Residual> residuals_;
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_CALL_SAMPLES_H_
