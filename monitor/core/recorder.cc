#include "monitor/core/recorder.h"

#include <algorithm>
#include <cmath>

namespace mpnanny {

Result<std::unique_ptr<Recorder>> Recorder::Open(RecorderOptions options) {
  Result<std::unique_ptr<RunFile>> file = RunFile::Open(options);
  if (!file) return file.error();
  return std::unique_ptr<Recorder>(new Recorder(std::move(options), *std::move(file)));
}

Recorder::Recorder(RecorderOptions options, std::unique_ptr<RunFile> file)
    : options_(std::move(options)),
      file_(std::move(file)),
      schedule_(options_.run.trace_interval, options_.dense_steps),
      written_precision_(options_.run.precision),
      samples_(options_, schedule_, layers_),
      call_samples_(layers_, samples_),
      findings_(layers_),
      forward_({*file_, layers_, schedule_, precision_, samples_, call_samples_, findings_}),
      gradients_(layers_, schedule_, samples_, options_.warmup_steps),
      weights_(layers_, samples_, findings_),
      updates_(*file_, layers_, schedule_, samples_),
      loss_spikes_(options_.warmup_steps),
      book_(options_.alert_window > 0 ? options_.alert_window
                                      : std::max<int64_t>(2 * options_.run.trace_interval, 50)),
      origins_(*file_, layers_, schedule_, book_),
      shadow_findings_(*file_, book_) {}

void Recorder::Register() {
  if (layers_.registered()) return;
  std::vector<LayerRow> rows = layers_.Register();
  updates_.Expect(layers_.parameters(), options_.run.trace_interval);
  file_->AddLayers(std::move(rows));
}

void Recorder::Flush() {
  Register();
  file_->Flush();
}

bool Recorder::BeginStep(int64_t step, std::optional<bool> sampled) {
  Register();
  const SampleSchedule::Begun begun = schedule_.BeginStep(step, sampled);
  if (begun.dense_ended) file_->Event(step, "dense_off", "");
  if (begun.first && step > 0) file_->Put(ParentRow{step});
  samples_.BeginStep();
  call_samples_.Clear();
  findings_.BeginStep();
  forward_.BeginStep();
  gradients_.BeginStep();
  updates_.BeginStep();
  return schedule_.sampling();
}

StepRow Recorder::MakeStep(const StepEnd& end) const {
  StepRow row;
  row.step = schedule_.step();
  row.at = end.at;
  row.duration = end.duration;
  row.loss = end.loss;
  row.lr = end.lr;
  row.loss_scale = end.scale;
  row.grad_norm = gradients_.norm();
  row.peak_memory = end.peak_memory;
  if (end.loss && std::isnan(*end.loss)) row.flags |= kLossNan;
  if (end.loss && std::isinf(*end.loss)) row.flags |= kLossInf;
  if (gradients_.any_nonfinite()) row.flags |= kGradientNonFinite;
  if (end.skipped) row.flags |= kStepSkipped;
  if (end.scale && end.scale_after && *end.scale_after < *end.scale) row.flags |= kScaleFell;
  if (end.scale && end.scale_after && *end.scale_after > *end.scale) row.flags |= kScaleRose;
  if (schedule_.sampling()) row.flags |= kSampled;
  if (schedule_.dense()) row.flags |= kDense;
  row.first_nonfinite_layer = forward_.first_nonfinite();
  row.nonfinite_layers = forward_.nonfinite_layers();
  return row;
}

StepFacts Recorder::FactsOf(const StepEnd& end) const {
  StepFacts facts;
  facts.step = schedule_.step();
  facts.loss = end.loss;
  facts.grad_norm = gradients_.norm();
  facts.scale = end.scale;
  facts.scale_after = end.scale_after;
  facts.growth_interval = end.growth_interval;
  facts.skipped = end.skipped;
  facts.has_gradients = gradients_.any_read();
  facts.forward_nonfinite = findings_.ForwardIsNonFinite();
  return facts;
}

std::vector<AlertRow> Recorder::EndStep(const StepEnd& end) {
  const StepRow row = MakeStep(end);
  file_->PutInRing(row);
  UpdatePrecision(end);
  Alerts found = Raise(end);
  file_->Put(row);
  samples_.Keep(*file_);
  call_samples_.Clear();
  const bool broken = std::any_of(found.begin(), found.end(), IsValueError);
  std::vector<AlertRow> fresh = Enter(found);
  origins_.EndStep(broken, fresh);
  return fresh;
}

Alerts Recorder::Raise(const StepEnd& end) {
  Alerts found;
  // -inf alone, with a finite loss and finite gradients, is a mask that a module made. Gradients
  // for which GradScaler skips the step are no sign against it: they are judged by themselves.
  const bool harmless =
      (!end.loss || std::isfinite(*end.loss)) && (!gradients_.any_nonfinite() || end.skipped);
  findings_.Raise(schedule_.step(), harmless, found);
  const bool explained = !found.empty();
  const StepFacts facts = FactsOf(end);
  LossCondition(facts, scale_conditions_, found);
  loss_spikes_.Step(facts, found);
  if (!explained) gradients_.RaiseNonFinite(end, scale_conditions_, found);
  scale_conditions_.Step(facts, found);
  gradients_.RaiseNorm(facts, found);
  if (schedule_.sampling()) RaiseSampled(end, found);
  return found;
}

void Recorder::RaiseSampled(const StepEnd& end, Alerts& out) {
  samples_.RaiseValues(precision_.plain(), out);
  samples_.RaiseGrowth(out);
  gradients_.RaiseMagnitude(out);
  call_samples_.RaiseResiduals(schedule_.step(), out);
  const bool finite = !gradients_.any_nonfinite();
  if (finite) updates_.RaiseNonFinite(out);
  // A step that is skipped changes nothing, and its gradients are those of a scale that is too
  // high.
  if (finite && !end.skipped) {
    gradients_.RaiseSmallLayers(forward_, out);
    updates_.RaiseStale(out);
  }
  updates_.ReportSmallStates();
}

std::vector<AlertRow> Recorder::Store(Alerts& found) {
  std::vector<AlertRow> fresh;
  for (AlertRow& alert : found) {
    const AlertBook::Outcome outcome = book_.Raise(alert);
    if (outcome == AlertBook::Outcome::kNew) {
      file_->Put(alert);
      fresh.push_back(std::move(alert));
    } else if (outcome == AlertBook::Outcome::kContinues) {
      file_->Put(AlertUpdate{alert});
    } else if (alerts_left_out_.insert(alert.type).second) {
      file_->Event(schedule_.step(), "alerts_left_out",
                   std::string(R"({"type":")") + NameOf(alert.type) + R"("})");
    }
  }
  return fresh;
}

std::vector<AlertRow> Recorder::Enter(Alerts& found) {
  std::vector<AlertRow> fresh = Store(found);
  for (AlertRow& alert : shadow_findings_.TakeNew()) fresh.push_back(std::move(alert));
  if (std::ranges::any_of(fresh,
                          [](const AlertRow& each) { return each.severity == Severity::kError; })) {
    if (schedule_.GoDense()) file_->Event(schedule_.step(), "dense_on", "");
    file_->FlushSoon();
  }
  // Denser samples of tensors tell nothing of two programs that disagree.
  for (AlertRow& alert : std::exchange(between_steps_, {})) fresh.push_back(std::move(alert));
  return fresh;
}

void Recorder::Logprobs(int64_t step, const LogprobFacts& facts) {
  Register();
  Alerts found;
  LogprobCondition(step, facts, found);
  for (AlertRow& alert : Store(found)) between_steps_.push_back(std::move(alert));
}

int64_t Recorder::SeeOrigin(NanOrigin origin) {
  Register();
  return origins_.See(std::move(origin));
}

int64_t Recorder::ShadowFinding(int64_t id, ShadowFindingRow row) {
  Register();
  if (row.layer && !layers_.IsAnnounced(*row.layer)) row.layer.reset();
  return shadow_findings_.See(id, std::move(row));
}

void Recorder::ShadowProfile(ShadowProfileRow row) {
  Register();
  if (layers_.IsAnnounced(row.layer)) file_->Put(std::move(row));
}

void Recorder::RankFigure(RankFigureRow row) {
  Register();
  if (layers_.IsAnnounced(row.layer)) file_->Put(std::move(row));
}

void Recorder::Collective(CollectiveRow row) {
  Register();
  if (row.layer && !layers_.IsAnnounced(*row.layer)) row.layer.reset();
  file_->Put(std::move(row));
}

void Recorder::UpdatePrecision(const StepEnd& end) {
  if (end.scale) precision_.SeeScaler();
  if (!options_.run.precision.empty() || written_precision_ == precision_.name()) return;
  written_precision_ = precision_.name();
  file_->Put(PrecisionRow{precision_.name()});
}

Result<void> Recorder::Close(const std::string& end_reason) {
  Register();
  return file_->Close(end_reason);
}

}  // namespace mpnanny
