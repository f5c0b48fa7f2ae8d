// A step's forward pass, call by call: who became non-finite first, and who only passed it on.
//
// Owns what the step in progress has shown so far; findings go to NonFiniteFindings, samples to
// StepSamples and CallSamples. Tensors are borrowed for the call and only read. Used by the
// training thread alone; what it refers to outlives it.
#ifndef MPNANNY_MONITOR_CORE_FORWARD_OBSERVER_H_
#define MPNANNY_MONITOR_CORE_FORWARD_OBSERVER_H_

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "monitor/core/call_samples.h"
#include "monitor/core/non_finite_findings.h"
#include "monitor/core/precision_in_use.h"
#include "monitor/core/run_file.h"
#include "monitor/core/run_layers.h"
#include "monitor/core/sample_schedule.h"
#include "monitor/core/step_inputs.h"
#include "monitor/core/step_samples.h"

namespace mpnanny {

class ForwardObserver {
 public:
  static constexpr int32_t kSampledCalls = 1'024;  // of one layer in a step

  struct Parts {
    RunFile& file;
    RunLayers& layers;
    const SampleSchedule& schedule;
    PrecisionInUse& precision;
    StepSamples& samples;
    CallSamples& call_samples;
    NonFiniteFindings& findings;
  };
  explicit ForwardObserver(const Parts& parts)
      : file_(parts.file),
        layers_(parts.layers),
        schedule_(parts.schedule),
        precision_(parts.precision),
        samples_(parts.samples),
        call_samples_(parts.call_samples),
        findings_(parts.findings) {}

  void BeginStep();

  // A module's call. True asks for Explain() with the same tensors: something became non-finite
  // here, or it is the first of its kind in this step.
  bool Observe(int64_t layer, std::span<const TensorView> inputs,
               std::span<const TensorView> outputs, const Tickets& tickets);
  // Before Explain(), where buffers of that module are not finite: which, in words and as JSON.
  void SetBrokenBuffers(std::string which, std::string json) {
    broken_buffers_ = std::move(which);
    broken_buffers_json_ = std::move(json);
  }
  // `parameters`: the module's own.
  void Explain(int64_t layer, std::span<const TensorView> inputs,
               std::span<const TensorView> outputs, std::span<const TensorView> parameters);

  bool Ran(int64_t layer) const { return calls_.Get(layer) > 0; }  // in this step
  bool any_ran() const { return positions_ > 0; }                  // ever
  int64_t first_nonfinite() const { return first_nonfinite_; }     // layer; -1: none
  int64_t nonfinite_layers() const { return nonfinite_layers_; }

 private:
  RunFile& file_;
  RunLayers& layers_;
  const SampleSchedule& schedule_;
  PrecisionInUse& precision_;
  StepSamples& samples_;
  CallSamples& call_samples_;
  NonFiniteFindings& findings_;

  int64_t positions_ = 0;
  std::string broken_buffers_, broken_buffers_json_;
  // of the step in progress
  PerLayer<int32_t> calls_;
  bool observed_ = false;
  int64_t first_nonfinite_ = -1, nonfinite_layers_ = 0, last_clean_ = 0;
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_FORWARD_OBSERVER_H_
