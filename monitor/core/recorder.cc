#include "monitor/core/recorder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "monitor/core/alert_types.h"

namespace mpnanny {

Result<std::unique_ptr<Recorder>> Recorder::Open(RecorderOptions options) {
  Result<LivePlace> place = ChoosePlace(options.path, options.network);
  if (!place) return place.error();
  options.path = place->live;
  Result<RunDatabase> database = RunDatabase::Open(options.path);
  if (!database) {
    if (place->published.empty() || !place->fresh) return database.error();
    RemoveLive(*place);  // it was only a copy
    Error error = database.error();
    if (const size_t at = error.message.find(place->live); at != std::string::npos)
      error.message.replace(at, place->live.size(), place->published);
    return error;
  }
  std::string note = place->note;
  std::optional<FlightRecorder> ring;
  if (Result<FlightRecorder> opened = FlightRecorder::Open(options.path)) {
    ring.emplace(*std::move(opened));
    // Rows that cannot be recovered must not stop the new run.
    const Result<int64_t> recovered = database->Recover(ring->Remains());
    if (!recovered) {
      note +=
          "The last run's flight ring could not be brought in and is kept; this run has none: " +
          recovered.error().Text();
      ring.reset();
    }
  } else {
    note += "No flight ring, so the last half second is lost if the process is killed: " +
            opened.error().Text();
  }
  if (options.run.precision == "auto") options.run.precision.clear();
  if (auto started = database->StartRun(options.run); !started) return started.error();
  std::unique_ptr<Recorder> recorder(
      new Recorder(std::move(options), *std::move(database), std::move(ring), std::move(note)));
  if (auto writing = recorder->writer_.Start(); !writing) {
    (void)recorder->Close("exception");  // the run's row must not look like one in progress
    return writing.error();
  }
  if (!place->published.empty()) recorder->Publish(*std::move(place));
  return recorder;
}

Recorder::Recorder(RecorderOptions options, RunDatabase database,
                   std::optional<FlightRecorder> ring, std::string note)
    : options_(std::move(options)),
      run_id_(database.run_id()),
      note_(std::move(note)),
      ring_(std::move(ring)),
      writer_(std::move(database), options_.max_bytes),
      book_(options_.alert_window > 0 ? options_.alert_window
                                      : std::max<int64_t>(2 * options_.run.trace_interval, 50)),
      shadow_findings_(writer_, book_),
      gradient_conditions_(options_.warmup_steps),
      loss_spikes_(options_.warmup_steps),
      precision_(options_.run.precision) {}

int64_t Recorder::AddLayer(LayerRow row, bool leaf) {
  if (registered_) return 0;
  Layer added;
  added.name = row.name;
  added.type = row.type;
  added.leaf = leaf;
  added.owns_parameters = leaf && row.numel.value_or(0) > 0;
  if (row.name.empty()) row.name = "(model)";  // named_modules() calls the model itself ""
  layers_.push_back(std::move(added));
  row.id = static_cast<int64_t>(layers_.size());
  const int64_t id = row.id;
  announced_.push_back(std::move(row));
  return id;
}

void Recorder::Register() {
  if (std::exchange(registered_, true)) return;
  FindOwners();
  const Result<int64_t> offset = writer_.AddLayers(std::exchange(announced_, {}));
  if (offset && ring_) {
    ring_->Start(run_id_, options_.run.started_at, *offset);
  } else {
    ring_.reset();
  }
}

void Recorder::FindOwners() {
  std::unordered_map<std::string_view, int64_t> modules;
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (layers_[i].type != kParameterType && layers_[i].type != kBufferType)
      modules.emplace(layers_[i].name, static_cast<int64_t>(i + 1));
  }
  int64_t parameters = 0;
  for (size_t i = 0; i < layers_.size(); ++i) {
    Layer& each = layers_[i];
    if (each.type != kParameterType) continue;
    ++parameters;
    const size_t dot = each.name.rfind('.');
    const auto owner =
        modules.find(std::string_view(each.name).substr(0, dot == std::string::npos ? 0 : dot));
    each.owner = owner != modules.end() ? owner->second : static_cast<int64_t>(i + 1);
  }
  update_samples_.Expect(parameters, options_.run.trace_interval < kOftenSteps
                                         ? UpdateSamples::kOftenElements
                                         : UpdateSamples::kElements);
}

void Recorder::Flush() {
  Register();
  writer_.Flush();
  if (publisher_) publisher_->PublishSoon();
}

bool Recorder::BeginStep(int64_t step, std::optional<bool> sampled) {
  Register();
  step_ = step;
  dense_ = dense_left_ > 0;
  const bool periodic = first_step_ || step % options_.run.trace_interval == 0;
  sampling_ = dense_ || periodic;
  exponents_ = periodic && (exponents_step_ < 0 || step - exponents_step_ >= kExponentSteps);
  if (exponents_) {
    exponents_step_ = step;
    gradient_spread_.Clear();
  }
  if (periodic)
    dense_ = false;  // a periodic sample has everything, a dense one leaves out the exponents
  if (sampled) {
    sampling_ = *sampled;
    dense_ = dense_ && sampling_;
  }
  if (dense_left_ > 0 && --dense_left_ == 0) Event(step, "dense_off", "");
  if (first_step_ && step > 0) writer_.Put(ParentRow{step});
  first_step_ = false;
  observed_ = nan_found_ = inf_found_ = false;
  samples_.clear();
  samples_left_out_ = 0;
  known_.fill({});
  residuals_.clear();
  updates_.clear();
  if (sampling_) update_samples_.BeginStep();
  findings_.clear();
  bad_gradients_.clear();
  first_nonfinite_ = -1;
  nonfinite_layers_ = last_clean_ = largest_gradient_layer_ = 0;
  gradients_read_ = last_good_gradient_ = 0;
  squares_ = largest_gradient_ = 0;
  for (Layer& each : layers_) {
    each.calls = 0;
    each.gradient = -1;
  }
  return sampling_;
}

void Recorder::Gradients(std::span<const ParameterView> gradients, double inverse_scale) {
  for (const ParameterView& gradient : gradients) {
    const size_t order = gradients_read_++;
    double squares = 0;
    if (sampling_ && Watches(TensorKind::kGradient)) {
      const Measured measured = Measure(gradient.view, TensorKind::kGradient);
      const TensorStats& stats = measured.stats;
      SampleOptions how;
      how.factor = inverse_scale;
      AddSample(gradient.layer, TensorKind::kGradient, 0, gradient.view, measured, how);
      squares = stats.nonfinite() > 0 ? std::numeric_limits<double>::quiet_NaN() : stats.squares;
      const double absmax = stats.absmax * inverse_scale;
      if (stats.finite > 0 && absmax >= largest_gradient_) {
        largest_gradient_ = absmax;
        largest_gradient_layer_ = gradient.layer;
      }
      if (const int64_t owner = layer(gradient.layer).owner; owner > 0 && stats.finite > 0)
        layer(owner).gradient = std::max(layer(owner).gradient, absmax);
    } else {
      squares = SumOfSquares(gradient.view);
    }
    squares_ += squares * inverse_scale * inverse_scale;
    if (std::isfinite(squares)) {
      last_good_gradient_ = order + 1;
    } else {
      bad_gradients_.push_back({order, gradient.layer, ComputeStats(gradient.view)});
    }
  }
}

StepRow Recorder::MakeStep(const StepEnd& end) const {
  StepRow row;
  row.step = step_;
  row.at = end.at;
  row.duration = end.duration;
  row.loss = end.loss;
  row.lr = end.lr;
  row.loss_scale = end.scale;
  if (gradients_read_ > 0) row.grad_norm = std::sqrt(squares_);
  row.peak_memory = end.peak_memory;
  if (end.loss && std::isnan(*end.loss)) row.flags |= kLossNan;
  if (end.loss && std::isinf(*end.loss)) row.flags |= kLossInf;
  if (!bad_gradients_.empty()) row.flags |= kGradientNonFinite;
  if (end.skipped) row.flags |= kStepSkipped;
  if (end.scale && end.scale_after && *end.scale_after < *end.scale) row.flags |= kScaleFell;
  if (end.scale && end.scale_after && *end.scale_after > *end.scale) row.flags |= kScaleRose;
  if (sampling_) row.flags |= kSampled;
  if (dense_) row.flags |= kDense;
  row.first_nonfinite_layer = first_nonfinite_;
  row.nonfinite_layers = nonfinite_layers_;
  return row;
}

void Recorder::Publish(const StepEnd& end) {
  if (ring_) ring_->Write(MakeStep(end));
}

std::vector<AlertRow> Recorder::EndStep(const StepEnd& end) {
  const StepRow row = MakeStep(end);
  if (ring_) ring_->Write(row);
  UpdatePrecision(end);
  Alerts found;
  RaiseFindings(end, found);
  const bool explained = !found.empty();
  StepFacts facts;
  facts.step = step_;
  facts.loss = end.loss;
  facts.grad_norm = row.grad_norm;
  facts.scale = end.scale;
  facts.scale_after = end.scale_after;
  facts.growth_interval = end.growth_interval;
  facts.skipped = end.skipped;
  facts.has_gradients = gradients_read_ > 0;
  facts.forward_nonfinite =
      std::any_of(findings_.begin(), findings_.end(), [](const NonFinite& finding) {
        return finding.stats.nan + finding.stats.posinf > 0 || finding.phase == "data";
      });
  LossCondition(facts, scale_conditions_, found);
  loss_spikes_.Step(facts, found);
  RaiseGradients(end, explained, found);
  scale_conditions_.Step(facts, found);
  gradient_conditions_.Norm(facts, found);
  if (sampling_) SampleConditions(end, found);
  writer_.Put(row);
  KeepSamples();
  const bool broken = std::any_of(found.begin(), found.end(), IsValueError);
  std::vector<AlertRow> fresh = Enter(found);
  TellBirth(broken, fresh);
  return fresh;
}

void Recorder::KeepSamples() {
  if (samples_left_out_ > 0) writer_.Drop(samples_left_out_);
  for (Pending& sample : samples_) {
    if (ring_) ring_->Write(sample.row);
    writer_.Put(std::move(sample.row));
  }
  samples_.clear();
}

std::vector<AlertRow> Recorder::Enter(Alerts& found) {
  std::vector<AlertRow> fresh;
  bool error = false;
  for (AlertRow& alert : found) {
    const AlertBook::Outcome outcome = book_.Raise(alert);
    if (outcome == AlertBook::Outcome::kNew) {
      error = error || alert.severity == "ERROR";
      writer_.Put(alert);
      fresh.push_back(std::move(alert));
    } else if (outcome == AlertBook::Outcome::kContinues) {
      writer_.Put(AlertUpdate{alert});
    } else if (alerts_left_out_.insert(alert.type).second) {
      Event(step_, "alerts_left_out", R"({"type":")" + alert.type + R"("})");
    }
  }
  for (AlertRow& alert : shadow_findings_.TakeNew()) {
    error = error || alert.severity == "ERROR";
    fresh.push_back(std::move(alert));
  }
  if (error) GoDense();
  return fresh;
}

void Recorder::GoDense() {
  if (dense_left_ == 0 && options_.dense_steps > 0) Event(step_, "dense_on", "");
  dense_left_ = options_.dense_steps;
  writer_.FlushSoon();
  if (publisher_) publisher_->PublishSoon();
}

int64_t Recorder::ShadowFinding(int64_t id, ShadowFindingRow row) {
  Register();
  if (row.layer && !HasLayer(*row.layer)) row.layer.reset();
  return shadow_findings_.See(id, std::move(row));
}

void Recorder::ShadowProfile(ShadowProfileRow row) {
  Register();
  if (HasLayer(row.layer)) writer_.Put(std::move(row));
}

void Recorder::UpdatePrecision(const StepEnd& end) {
  scaler_seen_ = scaler_seen_ || end.scale.has_value();
  if (!options_.run.precision.empty()) return;
  const std::string now = fp8_seen_                  ? "fp8"
                          : half_seen_ && bf16_seen_ ? "mixed"
                          : half_seen_               ? "fp16"
                          : bf16_seen_               ? "bf16"
                                                     : "fp32";
  if (now == precision_) return;
  precision_ = now;
  writer_.Put(PrecisionRow{now});
}

void Recorder::Event(std::optional<int64_t> step, std::string type, std::string detail) {
  EventRow row;
  row.step = step;
  row.at = UnixSeconds();
  row.type = std::move(type);
  row.detail = std::move(detail);
  writer_.Put(std::move(row));
}

std::vector<std::string> Recorder::UnseenLeaves() const {
  std::vector<std::string> unseen;
  for (const Layer& each : layers_) {
    if (each.leaf && each.position < 0) unseen.push_back(each.name);
  }
  return unseen;
}

Result<void> Recorder::Close(const std::string& end_reason) {
  Register();
  if (publisher_) publisher_->Stop();
  Result<void> closed = writer_.Close(UnixSeconds(), end_reason);
  if (closed && ring_) ring_->MarkClosed();
  if (closed && publisher_) closed = publisher_->Finish();
  return closed;
}

void Recorder::Publish(LivePlace place) {
  publisher_ = std::make_unique<Publisher>(
      std::move(place), [this] { writer_.Flush(); },
      [this](std::string type, std::string detail) {
        Event(std::nullopt, std::move(type), std::move(detail));
      });
  if (auto started = publisher_->Start(); !started) note_ += " " + started.error().Text();
}

}  // namespace mpnanny
