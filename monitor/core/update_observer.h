// What an optimizer's step does in sampled steps: updates that are lost or make weights non-finite,
// and the optimizer's state.
//
// Owns the copies of weights before the step and the history of stale updates. Used by the training
// thread alone; what it refers to outlives it.
#ifndef MPNANNY_MONITOR_CORE_UPDATE_OBSERVER_H_
#define MPNANNY_MONITOR_CORE_UPDATE_OBSERVER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "monitor/core/alert_layers.h"
#include "monitor/core/run_file.h"
#include "monitor/core/run_layers.h"
#include "monitor/core/sample_schedule.h"
#include "monitor/core/step_inputs.h"
#include "monitor/core/step_samples.h"
#include "monitor/core/update_samples.h"

namespace mpnanny {

class UpdateObserver {
 public:
  UpdateObserver(RunFile& file, const RunLayers& layers, const SampleSchedule& schedule,
                 StepSamples& samples)
      : file_(file), layers_(layers), schedule_(schedule), samples_(samples) {}

  // How many parameters there are, and how many steps lie between samples. Before the first step.
  void Expect(size_t parameters, int64_t interval);
  void BeginStep();

  // Round an optimizer's step, in sampled steps: the weights before it; then the same with their
  // gradients, and whether a weight that stays where it is says something of its precision; then
  // the optimizer's state.
  void Before(std::span<const ParameterView> weights);
  void After(std::span<const UpdatedWeight> weights);
  void States(std::span<const StateView> states);

  // Weights that the step made non-finite.
  void RaiseNonFinite(Alerts& out) const;
  void RaiseStale(Alerts& out);
  // An event, once a run, where Adam's eps is larger than most of what it is added to.
  void ReportSmallStates();

 private:
  static constexpr int64_t kOftenSteps = 10;  // intervals below: smaller samples of updates

  RunFile& file_;
  const RunLayers& layers_;
  const SampleSchedule& schedule_;
  StepSamples& samples_;
  UpdateSamples copies_;
  StaleUpdates stale_;
  bool left_out_reported_ = false, small_states_reported_ = false;
  std::vector<UpdateFinding> updates_;             // of the step in progress
  int64_t second_moments_ = 0, small_states_ = 0;  // Adam's v; where most of sqrt(v) is under eps
  double state_eps_ = 0;
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_UPDATE_OBSERVER_H_
