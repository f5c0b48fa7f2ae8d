// The monitor's core: takes tensors and figures as a step goes on, decides what to keep and what to
// alarm, and hands rows to the file.
//
// One for each run. Owns its parts, of which each has one job, and leads them through a step; what
// belongs to the whole step (its row, its alerts) is done here. Every function is called by the
// training process under Python's lock, one at a time; none blocks on a disk but the first
// BeginStep(), Flush() and Close(). Tensors are borrowed for the call and only read. No function
// fails towards training: trouble is kept in failure() and in the notes.
#ifndef MPNANNY_MONITOR_CORE_RECORDER_H_
#define MPNANNY_MONITOR_CORE_RECORDER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "monitor/core/alert_book.h"
#include "monitor/core/alert_conditions.h"
#include "monitor/core/call_samples.h"
#include "monitor/core/forward_observer.h"
#include "monitor/core/gradient_observer.h"
#include "monitor/core/nan_origins.h"
#include "monitor/core/non_finite_findings.h"
#include "monitor/core/precision_in_use.h"
#include "monitor/core/recorder_options.h"
#include "monitor/core/run_file.h"
#include "monitor/core/run_layers.h"
#include "monitor/core/sample_schedule.h"
#include "monitor/core/shadow_findings.h"
#include "monitor/core/step_inputs.h"
#include "monitor/core/step_samples.h"
#include "monitor/core/update_observer.h"
#include "monitor/core/weight_observer.h"

namespace mpnanny {

class Recorder {
 public:
  // Opens the file and starts the run.
  static Result<std::unique_ptr<Recorder>> Open(RecorderOptions options);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  int64_t run_id() const { return file_->run_id(); }
  const std::string& note() const { return file_->note(); }
  const std::string& path() const { return file_->path(); }
  std::string published() const { return file_->published(); }
  std::string failure() const { return file_->failure(); }

  // Announces a module (`leaf`: without children) or a parameter (`leaf` of no meaning). Ids count
  // from 1. Only before the first step, which puts all of them into the file; later 0 and nothing.
  int64_t AddLayer(LayerRow row, bool leaf) { return layers_.Add(std::move(row), leaf); }

  // Starts a step: true if it is sampled. `sampled`: the caller's own decision, for steps that are
  // reported after they have ended.
  bool BeginStep(int64_t step, std::optional<bool> sampled = std::nullopt);
  bool sampling() const { return schedule_.sampling(); }
  bool dense() const { return schedule_.dense_next(); }  // the next step is sampled in any case

  // A module's forward call, as ForwardObserver says. `tickets` spare sampled steps the reading of
  // an input that is another module's output.
  bool Observe(int64_t layer, std::span<const TensorView> inputs,
               std::span<const TensorView> outputs, Tickets tickets = {}) {
    return forward_.Observe(layer, inputs, outputs, tickets);
  }
  void BrokenBuffers(std::string which, std::string json) {
    forward_.SetBrokenBuffers(std::move(which), std::move(json));
  }
  void Explain(int64_t layer, std::span<const TensorView> inputs,
               std::span<const TensorView> outputs, std::span<const TensorView> parameters) {
    forward_.Explain(layer, inputs, outputs, parameters);
  }

  // Gradients, weights and updates, as their observers say.
  // Gradients() returns whether one of this step's is not finite so far.
  bool Gradients(std::span<const ParameterView> gradients, double inverse_scale) {
    gradients_.Observe(gradients, inverse_scale);
    return gradients_.any_nonfinite();
  }
  void ActivationGradient(int64_t layer, int32_t slot, const TensorView& gradient,
                          double inverse_scale) {
    gradients_.ObserveActivation(layer, slot, gradient, inverse_scale);
  }
  void Weights(std::span<const ParameterView> weights) { weights_.Observe(weights); }
  void BeforeUpdate(std::span<const ParameterView> weights) { updates_.Before(weights); }
  void AfterUpdate(std::span<const UpdatedWeight> weights) { updates_.After(weights); }
  void OptimizerStates(std::span<const StateView> states) { updates_.States(states); }

  // The operator that made a non-finite value, as NanOrigins says. Returns its layer's id.
  int64_t SeeOrigin(NanOrigin origin);
  std::string TakeExplained() { return origins_.TakeExplained(); }

  // What a shadow step reports, in the step or after it. A finding as ShadowFindings::See(): it
  // raises an alert if it is severe, which the next EndStep() returns. Layers that are none of the
  // run's are left out, a profile of one entirely.
  void ShadowStep(ShadowStepRow row) { file_->Put(std::move(row)); }
  int64_t ShadowFinding(int64_t id, ShadowFindingRow row);
  void ShadowProfile(ShadowProfileRow row);

  // Stores what is known so far in the ring: a step whose optimizer runs after it must not be lost
  // to a kill in between.
  void Publish(const StepEnd& end) { file_->PutInRing(MakeStep(end)); }

  // Ends the step. The alerts that are new.
  std::vector<AlertRow> EndStep(const StepEnd& end);

  // What other ranks' databases are compared with. Rows of layers that are none of the run's are
  // left out.
  void RankFigure(RankFigureRow row);
  void Collective(CollectiveRow row);

  // Raises LOGPROB_MISMATCH where the call passes its bounds; the next EndStep() returns it.
  void Logprobs(int64_t step, const LogprobFacts& facts);

  void Event(std::optional<int64_t> step, std::string type, std::string detail) {
    file_->Event(step, std::move(type), std::move(detail));
  }
  void SetNotes(std::string json) { file_->Put(NotesRow{std::move(json)}); }
  // How the gradients of the newest periodic sample are spread; nothing before the first, and in a
  // run that uses no FP16.
  const GradientSpread* gradient_spread() const {
    return precision_.needs_scale() ? &samples_.gradient_spread() : nullptr;
  }
  void Flush();
  std::vector<std::string> UnseenLeaves() const { return layers_.UnseenLeaves(); }

  // Ends the run; nothing may be called afterwards.
  Result<void> Close(const std::string& end_reason);

 private:
  Recorder(RecorderOptions options, std::unique_ptr<RunFile> file);

  void Register();  // the layers, once
  StepRow MakeStep(const StepEnd& end) const;
  StepFacts FactsOf(const StepEnd& end) const;
  // Everything that is wrong with the step.
  Alerts Raise(const StepEnd& end);
  void RaiseSampled(const StepEnd& end, Alerts& out);
  // Gives alerts to the file; those that are new.
  std::vector<AlertRow> Store(Alerts& found);
  // The same with what shadow steps raised; an error makes the next steps dense.
  std::vector<AlertRow> Enter(Alerts& found);
  void UpdatePrecision(const StepEnd& end);

  RecorderOptions options_;
  std::unique_ptr<RunFile> file_;
  RunLayers layers_;
  SampleSchedule schedule_;
  PrecisionInUse precision_;
  Word<Precision> written_precision_;  // that is in the file

  StepSamples samples_;
  CallSamples call_samples_;
  NonFiniteFindings findings_;
  ForwardObserver forward_;
  GradientObserver gradients_;
  WeightObserver weights_;
  UpdateObserver updates_;

  ScaleConditions scale_conditions_;
  LossSpikes loss_spikes_;
  AlertBook book_;
  std::vector<AlertRow> between_steps_;  // alerts that the next EndStep() returns
  std::set<AlertType> alerts_left_out_;  // types that had too many rows at once
  NanOrigins origins_;
  ShadowFindings shadow_findings_;
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_RECORDER_H_
