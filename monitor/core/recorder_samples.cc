// What the Recorder keeps of a sampled step's tensors, and which alerts they lead to.
#include <algorithm>
#include <cmath>
#include <string>

#include "monitor/core/alert_types.h"
#include "monitor/core/recorder.h"
#include "monitor/core/tensor_sample.h"
#include "numerics/elements.h"
#include "numerics/update_stats.h"

namespace mpnanny {
namespace {

constexpr int32_t kSecondMomentSlot = 1;  // Adam's exp_avg_sq (see the catalogue)
constexpr int64_t kResidualElements = 8 * kSampleRun;

std::string Varints(const ExponentHistogram& counts) {
  std::string bytes;
  for (int64_t count : counts) {
    auto rest = static_cast<uint64_t>(count);
    for (; rest >= 0x80; rest >>= 7) bytes += static_cast<char>(rest | 0x80);
    bytes += static_cast<char>(rest);
  }
  return bytes;
}

DType Stored(Format format) {
  switch (format) {
    case Format::kFp16:
      return DType::kFloat16;
    case Format::kBf16:
      return DType::kBFloat16;
    case Format::kE4M3:
      return DType::kFloat8E4M3;
    case Format::kE5M2:
      return DType::kFloat8E5M2;
    case Format::kFp32:
    case Format::kTf32:
      break;
  }
  return DType::kFloat32;
}

// The share of the elements that moved by less than half an ulp of themselves in `format`, or, in
// values that are stored in it, did not move. Both contiguous in memory order.
double ShareUnchanged(const TensorSample& before, const TensorSample& after, Format format,
                      bool held) {
  if (held) {
    const UpdateStats moved = ComputeUpdate(before.view(), after.view());
    const int64_t zeros = ComputeStats(before.view()).zeros;
    const auto nonzero = static_cast<double>(moved.update.numel - zeros);
    return nonzero > 0 ? static_cast<double>(moved.frozen) / nonzero : 0;
  }
  std::vector<double> values;
  values.reserve(static_cast<size_t>(before.numel()));
  ForEachElements(before.view(), [&](const auto* block, int64_t count) {
    values.insert(values.end(), block, block + count);
  });
  const DType dtype = Stored(format);
  size_t at = 0;
  int64_t lost = 0, moved = 0;
  ForEachElements(after.view(), [&](const auto* block, int64_t count) {
    for (int64_t i = 0; i < count; ++i, ++at) {
      const double difference = std::fabs(static_cast<double>(block[i]) - values[at]);
      moved += difference > 0;
      lost += difference > 0 && difference < HalfUlp(dtype, values[at]);
    }
  });
  return moved > 0 ? static_cast<double>(lost) / static_cast<double>(moved) : 0;
}

// -Inf is a mask; a buffer all of whose elements are infinite has been reset, as those that keep a
// minimum are. Running statistics are never that.
bool IsMeant(std::string_view buffer, const TensorStats& stats) {
  if (stats.nan > 0 || buffer.ends_with("running_var") || buffer.ends_with("running_mean"))
    return false;
  return stats.posinf == 0 || stats.posinf == stats.numel;
}

}  // namespace

Recorder::Measured Recorder::Measure(const TensorView& view, TensorKind kind) const {
  const bool stored = (options_.run.metrics & kExponentsMetric) != 0;
  if (!exponents_ || view.data == nullptr || !(stored || kind == TensorKind::kGradient))
    return {ComputeStats(view)};
  Measured measured;
  measured.stats = ComputeStats(view, &measured.exponents.emplace());
  return measured;
}

std::optional<size_t> Recorder::AddSample(int64_t layer_id, TensorKind kind, int32_t slot,
                                          const TensorView& view, const Measured& measured,
                                          const SampleOptions& how) {
  const TensorStats& stats = measured.stats;
  if (stats.partial) return std::nullopt;  // of a device's light steps: no row of figures
  if (samples_.size() >= std::max(kStepSamples, kStepSamplesPerLayer * layers_.size())) {
    ++samples_left_out_;
    return std::nullopt;
  }
  Pending sample;
  sample.row.step = step_;
  sample.row.layer = layer_id;
  sample.row.kind = kind;
  sample.row.slot = slot;
  sample.row.dtype = view.dtype;
  sample.row.stats = how.factor == 1 ? stats : Scaled(stats, how.factor);
  sample.producer = how.producer;
  if (how.judge)
    sample.judged = JudgeFormat(options_.run.precision, view.dtype, kind, how.cast_to_fp16);
  if (sample.judged) {
    sample.shares = MeasureShares(view, stats, *sample.judged);
    // A loss scale grows until gradients reach the top, and falls by itself when one is beyond.
    if (how.factor != 1) sample.shares.near = 0;
    if (how.columns && exponents_) sample.columns = MeasureColumns(view);
  }
  const bool stored = (options_.run.metrics & kExponentsMetric) != 0;
  if (measured.exponents) {
    if (kind == TensorKind::kGradient) gradient_spread_.Add(*measured.exponents, how.factor);
    if (stored) sample.row.exponents = Varints(*measured.exponents);
  } else if (how.same_as && stored) {
    sample.row.exponents = samples_[*how.same_as].row.exponents;
  }
  samples_.push_back(std::move(sample));
  return samples_.size() - 1;
}

const TensorStats* Recorder::Known(uint64_t ticket, std::optional<size_t>& sample) const {
  if (ticket == 0) return nullptr;
  for (const auto& [number, place] : known_) {
    if (number != ticket) continue;
    sample = place;
    return &samples_[place].row.stats;
  }
  return nullptr;
}

void Recorder::Remember(uint64_t ticket, std::optional<size_t> sample) {
  if (ticket == 0 || !sample) return;
  known_[next_known_] = {ticket, *sample};
  next_known_ = (next_known_ + 1) % known_.size();
}

bool Recorder::SampleCall(int64_t layer_id, int32_t call, std::span<const TensorView> inputs,
                          std::span<const TensorView> outputs, const Tickets& tickets) {
  // Autocast casts the input of an operator of its low-precision list; that is where an FP32 value
  // overflows.
  const bool half_out = !outputs.empty() && outputs[0].dtype == DType::kFloat16;
  const auto ticket = [](std::span<const uint64_t> of, size_t i) {
    return i < of.size() ? of[i] : 0;
  };
  double largest_input = -1;
  if (Watches(TensorKind::kInput)) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      SampleOptions how;
      how.cast_to_fp16 = half_out && inputs[i].dtype != DType::kFloat16;
      // By value: a sample that is added may move the others.
      const TensorStats* known = Known(ticket(tickets.inputs, i), how.same_as);
      const Measured measured =
          known != nullptr ? Measured{*known} : Measure(inputs[i], TensorKind::kInput);
      largest_input = std::max(largest_input, measured.stats.absmax);
      // The module that made it is the one to blame, unless it only breaks in the cast.
      how.judge = known == nullptr || how.cast_to_fp16;
      const auto sample = AddSample(layer_id, TensorKind::kInput,
                                    call * 256 + static_cast<int32_t>(i), inputs[i], measured, how);
      if (known == nullptr) Remember(ticket(tickets.inputs, i), sample);
    }
  }
  if (!Watches(TensorKind::kActivation)) {
    return std::ranges::any_of(outputs, [](const TensorView& each) { return HasNonFinite(each); });
  }
  bool nonfinite = false;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Measured measured = Measure(outputs[i], TensorKind::kActivation);
    const TensorStats& stats = measured.stats;
    nonfinite = nonfinite || stats.nonfinite() > 0;
    SampleOptions how;
    how.columns = layer(layer_id).owns_parameters;
    if (stats.above_fp16 > 0 && largest_input >= 0) how.producer = largest_input < 65520 ? 1 : 0;
    const auto sample = AddSample(layer_id, TensorKind::kActivation,
                                  call * 256 + static_cast<int32_t>(i), outputs[i], measured, how);
    Remember(ticket(tickets.outputs, i), sample);
  }
  return nonfinite;
}

void Recorder::SampleResidual(int64_t layer_id, const TensorView& in, const TensorView& out) {
  if (in.dtype != out.dtype || in.data == out.data || !SameLayout(in, out)) return;
  const std::optional<Judgement> judged =
      JudgeFormat(options_.run.precision, in.dtype, TensorKind::kActivation, false);
  if (!judged || judged->plain_fp32 || judged->scaled) return;
  const std::string& name = layer(layer_id).name;
  // What the newest of its submodules gave, if it can have been added.
  const auto addend = std::find_if(samples_.rbegin(), samples_.rend(), [&](const Pending& sample) {
    const std::string& inner = layer(sample.row.layer).name;
    return sample.row.kind == TensorKind::kActivation &&
           (name.empty() ||
            (inner.starts_with(name) && inner.size() > name.size() && inner[name.size()] == '.'));
  });
  if (addend == samples_.rend() || addend->row.stats.numel != in.numel()) return;
  const TensorStats& added = addend->row.stats;
  if (added.finite == 0 || added.absmax == 0) return;
  const std::optional<TensorSample> before = SampleOf(in, kResidualElements);
  const std::optional<TensorSample> after = SampleOf(out, kResidualElements);
  if (!before || !after) return;
  Residual residual;
  residual.layer = layer_id;
  residual.dtype = in.dtype;
  residual.judged = judged->format;
  residual.unchanged = ShareUnchanged(*before, *after, judged->format, judged->held);
  if (judged->held)
    residual.addend_zeros = static_cast<double>(added.zeros) / static_cast<double>(added.finite);
  residual.addend_layer = addend->row.layer;
  residual.input_rms = ComputeStats(before->view()).rms();
  residual.addend_rms = added.rms();
  residuals_.push_back(residual);
}

void Recorder::Weights(std::span<const ParameterView> weights) {
  for (const ParameterView& weight : weights) {
    Layer& here = layer(weight.layer);
    const bool watched = Watches(TensorKind::kWeight);
    const Measured measured =
        watched ? Measure(weight.view, TensorKind::kWeight) : Measured{ComputeStats(weight.view)};
    const TensorStats& stats = measured.stats;
    if (watched) AddSample(weight.layer, TensorKind::kWeight, 0, weight.view, measured, {});
    if (stats.nonfinite() == 0) {
      here.was_finite = true;
    } else if (here.type == kBufferType && IsMeant(here.name, stats)) {
      continue;
    } else if (here.was_finite && findings_.empty()) {
      // Not what was never finite: a mask, an observer that has seen nothing yet.
      here.was_finite = false;
      const bool buffer = here.type == kBufferType;
      NonFinite finding;
      finding.layer = weight.layer;
      finding.phase = buffer ? "forward" : "optimizer";  // modules write buffers
      finding.kind = TensorKind::kWeight;
      finding.stats = stats;
      finding.producer = true;
      finding.message = here.name + (buffer ? ": the buffer" : ": the weight") + " has " +
                        std::to_string(stats.nonfinite()) + " of " + std::to_string(stats.numel) +
                        " elements that are not finite; it was finite in the last sample, and the "
                        "forward pass of this step is.";
      AddFinding(std::move(finding));
    }
  }
}

void Recorder::ActivationGradient(int64_t layer_id, int32_t slot, const TensorView& gradient,
                                  double inverse_scale) {
  if (!Watches(TensorKind::kActivationGradient)) return;
  SampleOptions how;
  how.factor = inverse_scale;
  AddSample(layer_id, TensorKind::kActivationGradient, slot, gradient,
            Measure(gradient, TensorKind::kActivationGradient), how);
}

void Recorder::BeforeUpdate(std::span<const ParameterView> weights) {
  if (!sampling_ || !Watches(TensorKind::kUpdate)) return;
  int64_t left_out = 0;
  for (const ParameterView& weight : weights)
    left_out += !update_samples_.Keep(weight.layer, weight.view);
  if (left_out > 0 && !std::exchange(updates_left_out_, true))
    Event(step_, "updates_left_out", R"({"tensors":)" + std::to_string(left_out) + "}");
}

void Recorder::AfterUpdate(std::span<const UpdatedWeight> weights) {
  if (!sampling_) return;
  for (const UpdatedWeight& weight : weights) {
    std::optional<UpdateFinding> found = update_samples_.Compare(weight);
    if (!found) continue;
    SampleOptions how;
    how.judge = false;
    TensorView empty;  // the differences are nowhere in memory
    empty.dtype = weight.weight.dtype;
    if (const auto sample =
            AddSample(weight.layer, TensorKind::kUpdate, 0, empty, {found->update}, how))
      samples_[*sample].row.frozen = found->frozen;
    updates_.push_back(*std::move(found));
  }
}

void Recorder::OptimizerStates(std::span<const StateView> states) {
  if (!sampling_ || !Watches(TensorKind::kOptimizerState)) return;
  small_states_ = second_moments_ = 0;
  for (const StateView& state : states) {
    const std::optional<TensorSample> sample = SampleOf(state.view, update_samples_.limit());
    const TensorView view = sample ? sample->view() : state.view;
    const Measured measured = Measure(view, TensorKind::kOptimizerState);
    const TensorStats& stats = measured.stats;
    AddSample(state.layer, TensorKind::kOptimizerState, state.slot, view, measured, {});
    if (state.slot != kSecondMomentSlot || state.eps <= 0 || stats.finite <= stats.zeros) continue;
    ++second_moments_;
    state_eps_ = state.eps;
    const double bound = state.eps * state.eps;
    if (stats.absmin >= bound) continue;
    int64_t small = 0;
    ForEachElements(view, [&](const auto* values, int64_t count) {
      for (int64_t i = 0; i < count; ++i) small += values[i] > 0 && values[i] < bound;
    });
    small_states_ += 2 * small > stats.finite - stats.zeros;
  }
}

void Recorder::RaiseUpdates(Alerts& out) {
  if (dense_ || !bad_gradients_.empty()) return;  // in a dense step the trace of operators tells it
  const auto born = std::ranges::find_if(updates_, [](const UpdateFinding& update) {
    return update.after.nonfinite() > 0 && update.before.nonfinite() == 0 && update.gradient_finite;
  });
  if (born == updates_.end()) return;
  AlertRow& alert = out.emplace_back(MakeAlert(
      born->after.nan > 0 ? "NAN" : "INF", step_, "optimizer",
      layer(born->layer).name + ": the optimizer's step made " +
          std::to_string(born->after.nonfinite()) + " of " + std::to_string(born->after.numel) +
          " sampled weights non-finite; weights and gradient were finite before it."));
  // As the next forward pass will tell it, which then goes on with this row.
  alert.layer = layer(born->layer).owner;
  alert.kind = TensorKind::kWeight;
  alert.value = static_cast<double>(born->after.nonfinite());
  alert.threshold = 0;
  alert.producer = 1;
}

void Recorder::LayerConditions(const StepEnd& end, Alerts& out) {
  for (Residual& residual : residuals_) {
    residual.name = layer(residual.layer).name;
    residual.addend = layer(residual.addend_layer).name;
    ResidualCondition(step_, residual, out);
  }
  RaiseUpdates(out);
  // A step that is skipped changes nothing, and its gradients are those of a scale that is too
  // high.
  if (end.skipped || !bad_gradients_.empty()) return;
  std::vector<LayerGradient> gradients;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& each = layers_[i];
    const bool ran = each.calls > 0 || each.type == kParameterType || positions_ == 0;
    if (each.gradient >= 0 && ran)
      gradients.push_back({static_cast<int64_t>(i + 1), each.name, each.gradient});
  }
  dead_layers_.Sample(step_, gradients, out);
  for (const UpdateFinding& update : updates_) {
    if (!update.judge || update.update.nonfinite() > 0) continue;
    stale_updates_.Sample(step_,
                          {update.layer, layer(update.layer).name, update.dtype,
                           update.frozen.value_or(0), update.moved},
                          out);
  }
}

void Recorder::SampleConditions(const StepEnd& end, Alerts& out) {
  const bool plain_run = !half_seen_ && !bf16_seen_ && !fp8_seen_ && !scaler_seen_;
  for (const Pending& sample : samples_) {
    if (!sample.judged || (sample.judged->plain_fp32 && !plain_run)) continue;
    ValueConditions({sample.row, layer(sample.row.layer).name, *sample.judged, sample.shares,
                     sample.columns, sample.producer},
                    out);
  }
  if (gradients_read_ > 0 && bad_gradients_.empty() && largest_gradient_layer_ > 0) {
    gradient_conditions_.Magnitude(step_, largest_gradient_, largest_gradient_layer_,
                                   layer(largest_gradient_layer_).name, out);
  }
  LayerConditions(end, out);
  if (2 * small_states_ > second_moments_ && !std::exchange(small_states_told_, true)) {
    Event(step_, "adam_eps",
          Message(R"({"eps":%g,"tensors":%lld,"of":%lld})", state_eps_,
                  static_cast<long long>(small_states_), static_cast<long long>(second_moments_)));
  }
}

}  // namespace mpnanny
