// A step's gradients: their samples, their norm, those that are not finite, and the layers that get
// none.
//
// Owns the figures of the step in progress and the history that its conditions need. Used by the
// training thread alone; what it refers to outlives it.
#ifndef MPNANNY_MONITOR_CORE_GRADIENT_OBSERVER_H_
#define MPNANNY_MONITOR_CORE_GRADIENT_OBSERVER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "monitor/core/alert_conditions.h"
#include "monitor/core/alert_layers.h"
#include "monitor/core/forward_observer.h"
#include "monitor/core/run_layers.h"
#include "monitor/core/sample_schedule.h"
#include "monitor/core/step_inputs.h"
#include "monitor/core/step_samples.h"

namespace mpnanny {

class GradientObserver {
 public:
  GradientObserver(const RunLayers& layers, const SampleSchedule& schedule, StepSamples& samples,
                   int64_t warmup_steps)
      : layers_(layers), schedule_(schedule), samples_(samples), conditions_(warmup_steps) {}

  void BeginStep();

  // Parameters' gradients, as they are held, and the factor that unscales them. Once a step; more
  // calls (several optimizers) add up.
  void Observe(std::span<const ParameterView> gradients, double inverse_scale);
  void ObserveActivation(int64_t layer, int32_t slot, const TensorView& gradient,
                         double inverse_scale);

  bool any_read() const { return read_ > 0; }
  bool any_nonfinite() const { return !bad_.empty(); }
  std::optional<double> norm() const;  // over all, unscaled; NaN where one is not finite

  // A gradient that is not finite although loss and forward pass are.
  void RaiseNonFinite(const StepEnd& end, const ScaleConditions& scale, Alerts& out) const;
  void RaiseNorm(const StepFacts& facts, Alerts& out) { conditions_.Norm(facts, out); }
  // Of sampled steps: the largest gradient; layers that get none.
  void RaiseMagnitude(Alerts& out);
  void RaiseSmallLayers(const ForwardObserver& forward, Alerts& out);

 private:
  struct NonFinite {
    size_t order = 0;  // among the step's gradients
    int64_t layer = 0;
    TensorStats stats;
  };

  const RunLayers& layers_;
  const SampleSchedule& schedule_;
  StepSamples& samples_;
  GradientConditions conditions_;
  DeadLayers dead_layers_;
  // of the step in progress
  std::vector<NonFinite> bad_;
  size_t read_ = 0;
  size_t last_good_ = 0;  // 1 + order of the last finite one
  double squares_ = 0;
  double largest_ = 0;  // unscaled
  int64_t largest_layer_ = 0;
  PerLayer<double> absmax_{-1};  // of owners of parameters, unscaled; -1: none
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_GRADIENT_OBSERVER_H_
