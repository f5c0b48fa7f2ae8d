// The monitor's core: takes tensors and figures as a step goes on, decides what to keep and what to
// alarm, and hands rows to the writer and the flight ring.
//
// One for each run. Owns the writer, the ring, the conditions and their history. Every function is
// called by the training process under Python's lock, one at a time; none blocks on a disk but
// the first BeginStep(), Flush() and Close(). Tensors are borrowed for the call and only read. No
// function fails towards training: trouble is kept in failure() and in the notes.
#ifndef MPNANNY_MONITOR_CORE_RECORDER_H_
#define MPNANNY_MONITOR_CORE_RECORDER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "monitor/core/alert_book.h"
#include "monitor/core/alert_conditions.h"
#include "monitor/core/alert_layers.h"
#include "monitor/core/alert_types.h"
#include "monitor/core/alert_values.h"
#include "monitor/core/flight_recorder.h"
#include "monitor/core/gradient_spread.h"
#include "monitor/core/publisher.h"
#include "monitor/core/rows.h"
#include "monitor/core/shadow_findings.h"
#include "monitor/core/update_samples.h"
#include "monitor/core/writer.h"

namespace mpnanny {

// LayerRow::type of what is no module.
inline constexpr std::string_view kParameterType = "parameter", kBufferType = "buffer",
                                  kOperatorType = "operator";

struct RecorderOptions {
  std::string path;  // of the database
  RunRow run;        // run.precision: auto | fp16 | bf16 | fp32 | fp8
  int64_t dense_steps = 50;
  uint32_t kinds = kAllKinds;           // watched: bits by TensorKind
  int64_t warmup_steps = kWarmupSteps;  // before conditions relative to the run's own history
  int64_t alert_window = 0;             // AlertBook's quiet steps; 0: two intervals, 50 at least
  int64_t max_bytes = int64_t{2048} << 20;  // of the database; past it old samples are thinned
  std::optional<bool> network;  // whether the path is on a network file system; empty: ask
};

// A parameter's gradient or value, with the layer that stands for it.
struct ParameterView {
  int64_t layer = 0;
  TensorView view;
};

// An operator that was seen to make a non-finite value although its inputs were finite: what the
// trace of a dense step finds (the front's _operators.py).
struct OperatorBirth {
  std::string phase;              // data | forward | loss | backward | optimizer
  std::string name, source;       // of its row in `layer`; source: file:line
  std::optional<int64_t> module;  // the watched module that ran it
  bool nan = false;               // else infinite
  int64_t count = 0;              // of its elements that are not finite
  std::string message;
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

// What the front knows when a step ends.
struct StepEnd {
  double at = 0;
  std::optional<double> duration, loss, lr, scale, scale_after;
  int64_t growth_interval = 2000;
  bool skipped = false;
  std::optional<int64_t> peak_memory;
};

class Recorder {
 public:
  // What a step may keep, however long it lasts (an update written by hand never ends one): the
  // samples and findings beyond are left out, the samples counted in the event samples_dropped.
  // A step of a model whose layers run a few times stays far below.
  static constexpr size_t kStepSamples = 8'192;
  static constexpr size_t kStepSamplesPerLayer = 8;  // allows a model of many layers more
  static constexpr size_t kStepFindings = 256;
  static constexpr int32_t kSampledCalls = 1'024;  // of one layer
  // Exponents cost more than all other figures together: of samples that follow each other closely
  // one in so many steps has them.
  static constexpr int64_t kExponentSteps = 25;
  static constexpr int64_t kOftenSteps = 10;  // intervals below: smaller samples of updates

  // Opens the database and the ring, brings what a killed run left in the ring into its rows, and
  // starts the run.
  static Result<std::unique_ptr<Recorder>> Open(RecorderOptions options);

  int64_t run_id() const { return run_id_; }
  const std::string& note() const { return note_; }  // what could not be set up; empty mostly
  const std::string& path() const { return options_.path; }  // of the file that SQLite writes
  // Where copies of it go; empty unless the path that was asked for is on a network file system.
  std::string published() const { return publisher_ ? publisher_->published() : ""; }
  std::string failure() const { return writer_.failure(); }

  // Announces a module (`leaf`: without children) or a parameter (`leaf` of no meaning). Ids count
  // from 1. Only before the first step, which puts all of them into the file; later 0 and nothing.
  int64_t AddLayer(LayerRow row, bool leaf);

  // Starts a step: true if it is sampled. `sampled`: the caller's own decision, for steps that are
  // told after they have ended.
  bool BeginStep(int64_t step, std::optional<bool> sampled = std::nullopt);
  bool sampling() const { return sampling_; }
  bool dense() const { return dense_left_ > 0; }  // the next step is sampled, whatever its number

  // A module's forward call. True asks for Explain() with the same tensors: something became
  // non-finite here, or it is the first of its kind in this step.  `tickets` spare sampled steps
  // the reading of an input that is another module's output.
  bool Observe(int64_t layer, std::span<const TensorView> inputs,
               std::span<const TensorView> outputs, Tickets tickets = {});
  // `parameters`: the module's own.
  void Explain(int64_t layer, std::span<const TensorView> inputs,
               std::span<const TensorView> outputs, std::span<const TensorView> parameters);

  // Before Explain(), where buffers of that module are not finite: which, in words.
  void BrokenBuffers(std::string which) { broken_buffers_ = std::move(which); }

  // The step's parameter gradients, as they are held, and the factor that unscales them. Once a
  // step; more calls (several optimizers) add up.
  void Gradients(std::span<const ParameterView> gradients, double inverse_scale);
  // Parameters and buffers (layers of type 'buffer') of a sampled step.
  void Weights(std::span<const ParameterView> weights);
  // Round an optimizer's step, in sampled steps: the weights before it; then the same with their
  // gradients, and whether a weight that stays where it is says something of its precision.
  void BeforeUpdate(std::span<const ParameterView> weights);
  void AfterUpdate(std::span<const UpdatedWeight> weights);
  void OptimizerStates(std::span<const StateView> states);  // after it
  void ActivationGradient(int64_t layer, int32_t slot, const TensorView& gradient,
                          double inverse_scale);

  // Told at the end of the step if that has an ERROR about a non-finite value; an optimizer's also
  // a step later, when the weights that it wrote are used. The first of a step counts, each
  // operator once a run. It is added to the alert, or is one of its own where none fits. Returns
  // the id of the operator's row, which is written when it is told.
  int64_t Born(OperatorBirth birth);
  // What has been added to an alert since it was last asked for, in words; empty: nothing.
  std::string TakeExplained() { return std::exchange(explained_, {}); }

  // Stores what is known so far in the ring: a step whose optimizer runs after it must not be lost
  // to a kill in between.
  void Publish(const StepEnd& end);

  // Ends the step. The alerts that are new.
  std::vector<AlertRow> EndStep(const StepEnd& end);

  // What a shadow step tells, in the step or after it. A finding as ShadowFindings::See(): it
  // raises an alert if it is severe, which the next EndStep() returns. Layers that are none of the
  // run's are left out, a profile of one entirely.
  void ShadowStep(ShadowStepRow row) { writer_.Put(std::move(row)); }
  int64_t ShadowFinding(int64_t id, ShadowFindingRow row);
  void ShadowProfile(ShadowProfileRow row);

  void Event(std::optional<int64_t> step, std::string type, std::string detail);
  void SetNotes(std::string json) { writer_.Put(NotesRow{std::move(json)}); }
  // How the gradients of the newest periodic sample are spread; nothing before the first, and in a
  // run that uses no FP16.
  const GradientSpread* gradient_spread() const {
    return half_seen_ || scaler_seen_ ? &gradient_spread_ : nullptr;
  }
  void Flush();
  std::vector<std::string> UnseenLeaves() const;

  // Ends the run; nothing may be called afterwards.
  Result<void> Close(const std::string& end_reason);

 private:
  struct Layer {
    std::string name, type;
    bool leaf = false;
    bool owns_parameters = false;
    int64_t position = -1;
    int32_t calls = 0;        // in this step
    int64_t owner = 0;        // of a parameter: its module, or itself where that is not watched
    double gradient = -1;     // of an owner: unscaled absmax in this step, -1: none
    bool was_finite = false;  // of a parameter or buffer: in an earlier sample
  };
  struct Pending {  // a sample of this step
    SampleRow row;
    std::optional<Judgement> judged;  // empty: not judged
    Shares shares;
    std::optional<Columns> columns;
    std::optional<int> producer;
  };
  struct Measured {
    TensorStats stats;
    std::optional<ExponentHistogram> exponents = std::nullopt;  // on full samples
  };
  struct SampleOptions {
    double factor = 1;          // that makes the figures unscaled
    bool cast_to_fp16 = false;  // it is given to an operator that makes FP16 of it
    bool judge = true;
    bool columns = false;
    std::optional<int> producer;
    std::optional<size_t> same_as;  // its exponents are those of this sample
  };
  struct NonFinite {  // a finding of this step
    std::optional<int64_t> layer;
    std::string phase;
    TensorKind kind = TensorKind::kActivation;
    TensorStats stats;
    bool producer = false;
    std::string message;
  };
  struct PendingBirth {
    int64_t step = 0, layer = 0;
    OperatorBirth birth;
  };
  struct BadGradient {
    size_t order = 0;
    int64_t layer = 0;
    TensorStats stats;
  };

  Recorder(RecorderOptions options, RunDatabase database, std::optional<FlightRecorder> ring,
           std::string note);

  Layer& layer(int64_t id) { return layers_.at(static_cast<size_t>(id - 1)); }
  // Of a row that is in the file: an operator's is written when it is told.
  bool HasLayer(int64_t id) const {
    return id >= 1 && id <= static_cast<int64_t>(layers_.size()) &&
           layers_[static_cast<size_t>(id - 1)].type != kOperatorType;
  }
  void Publish(LivePlace place);
  void FindOwners();
  void Register();  // the layers, and with them the ring: its samples name rows of the file
  bool Watches(TensorKind kind) const {
    return (options_.kinds >> static_cast<int>(kind) & 1) != 0;
  }
  // All figures that this step's samples of a kind have, by one pass over the tensor.
  Measured Measure(const TensorView& view, TensorKind kind) const;
  // The sample's place in samples_; empty: left out.
  std::optional<size_t> AddSample(int64_t layer_id, TensorKind kind, int32_t slot,
                                  const TensorView& view, const Measured& measured,
                                  const SampleOptions& how);
  // A leaf's call in a sampled step; whether an output is not finite.
  bool SampleCall(int64_t layer_id, int32_t call, std::span<const TensorView> inputs,
                  std::span<const TensorView> outputs, const Tickets& tickets);
  const TensorStats* Known(uint64_t ticket, std::optional<size_t>& sample) const;
  void Remember(uint64_t ticket, std::optional<size_t> sample);
  void SampleResidual(int64_t layer_id, const TensorView& in, const TensorView& out);
  StepRow MakeStep(const StepEnd& end) const;
  bool HasProducerBelow(const std::string& container) const;
  void AddFinding(NonFinite finding);
  void RaiseFindings(const StepEnd& end, Alerts& out);
  // `explained`: the forward pass has an alert already.
  void RaiseGradients(const StepEnd& end, bool explained, Alerts& out);
  void SampleConditions(const StepEnd& end, Alerts& out);
  void LayerConditions(const StepEnd& end, Alerts& out);
  void RaiseUpdates(Alerts& out);
  void KeepSamples();
  std::vector<AlertRow> Enter(Alerts& found);
  // `broken`: the step has an ERROR about a non-finite value. Adds to `fresh` what is new.
  void TellBirth(bool broken, std::vector<AlertRow>& fresh);
  void GoDense();  // after an ERROR
  void UpdatePrecision(const StepEnd& end);
  bool ForwardNonFinite() const { return !findings_.empty(); }

  RecorderOptions options_;
  int64_t run_id_ = 0;
  std::string note_;
  std::optional<FlightRecorder> ring_;
  Writer writer_;
  std::unique_ptr<Publisher> publisher_;  // stops before the writer
  AlertBook book_;
  ShadowFindings shadow_findings_;
  ScaleConditions scale_conditions_;
  GradientConditions gradient_conditions_;
  LossSpikes loss_spikes_;
  DeadLayers dead_layers_;
  StaleUpdates stale_updates_;
  UpdateSamples update_samples_;
  std::set<std::string> alerts_left_out_;  // types that had too many rows at once
  bool updates_left_out_ = false, small_states_told_ = false;

  std::vector<Layer> layers_;
  std::vector<LayerRow> announced_;                      // until they are registered
  std::unordered_map<std::string, LayerRow> operators_;  // by name
  std::optional<PendingBirth> birth_;
  std::string explained_, broken_buffers_;
  bool registered_ = false;
  int64_t positions_ = 0;
  bool first_step_ = true;
  bool half_seen_ = false, bf16_seen_ = false, fp8_seen_ = false, scaler_seen_ = false;
  std::string precision_;
  int64_t dense_left_ = 0;
  GradientSpread gradient_spread_;
  int64_t exponents_step_ = -1;  // the newest with exponents

  // of the step in progress
  int64_t step_ = 0;
  bool sampling_ = false, dense_ = false, observed_ = false;
  bool exponents_ = false;  // a full sample; a light one has none, nor columns' maxima
  std::vector<Pending> samples_;
  int64_t samples_left_out_ = 0;
  std::array<std::pair<uint64_t, size_t>, 32> known_{};  // ticket, place in samples_
  size_t next_known_ = 0;
  std::vector<Residual> residuals_;
  std::vector<UpdateFinding> updates_;
  int64_t second_moments_ = 0, small_states_ = 0;  // Adam's v; where most of sqrt(v) is under eps
  double state_eps_ = 0;
  std::vector<NonFinite> findings_;
  bool nan_found_ = false, inf_found_ = false;
  int64_t first_nonfinite_ = -1, nonfinite_layers_ = 0, last_clean_ = 0;
  std::vector<BadGradient> bad_gradients_;
  size_t gradients_read_ = 0;
  size_t last_good_gradient_ = 0;  // 1 + order of the last finite one
  double squares_ = 0;
  double largest_gradient_ = 0;
  int64_t largest_gradient_layer_ = 0;
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_RECORDER_H_
