// Parameters and buffers of sampled steps: their samples, and which of them are finite no longer.
//
// Owns which of them were finite. Used by the training thread alone; what it refers to outlives it.
#ifndef MPNANNY_MONITOR_CORE_WEIGHT_OBSERVER_H_
#define MPNANNY_MONITOR_CORE_WEIGHT_OBSERVER_H_

#include <span>

#include "monitor/core/non_finite_findings.h"
#include "monitor/core/run_layers.h"
#include "monitor/core/step_inputs.h"
#include "monitor/core/step_samples.h"

namespace mpnanny {

class WeightObserver {
 public:
  WeightObserver(const RunLayers& layers, StepSamples& samples, NonFiniteFindings& findings)
      : layers_(layers), samples_(samples), findings_(findings) {}

  // Parameters and buffers (layers of type 'buffer').
  void Observe(std::span<const ParameterView> weights);

 private:
  const RunLayers& layers_;
  StepSamples& samples_;
  NonFiniteFindings& findings_;
  PerLayer<char> was_finite_;  // in an earlier sample
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_WEIGHT_OBSERVER_H_
