#include "monitor/core/call_samples.h"

#include <algorithm>
#include <cmath>

#include "monitor/core/tensor_sample.h"
#include "numerics/elements.h"
#include "numerics/update_stats.h"

namespace mpnanny {
namespace {

constexpr int64_t kResidualElements = 8 * kSampleRun;

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

}  // namespace

void CallSamples::Clear() {
  known_.fill({});
  residuals_.clear();
}

const TensorStats* CallSamples::Known(uint64_t ticket, std::optional<size_t>& sample) const {
  if (ticket == 0) return nullptr;
  for (const auto& [number, place] : known_) {
    if (number != ticket) continue;
    sample = place;
    return &samples_.row(place).stats;
  }
  return nullptr;
}

void CallSamples::Remember(uint64_t ticket, std::optional<size_t> sample) {
  if (ticket == 0 || !sample) return;
  known_[next_known_] = {ticket, *sample};
  next_known_ = (next_known_ + 1) % known_.size();
}

bool CallSamples::Sample(int64_t layer_id, int32_t call, std::span<const TensorView> inputs,
                         std::span<const TensorView> outputs, const Tickets& tickets) {
  // Autocast casts the input of an operator of its low-precision list; that is where an FP32 value
  // overflows.
  const bool half_out = !outputs.empty() && outputs[0].dtype == DType::kFloat16;
  const auto ticket = [](std::span<const uint64_t> of, size_t i) {
    return i < of.size() ? of[i] : 0;
  };
  double largest_input = -1;
  if (samples_.Watches(TensorKind::kInput)) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      SampleOptions how;
      how.cast_to_fp16 = half_out && inputs[i].dtype != DType::kFloat16;
      // By value: a sample that is added may move the others.
      const TensorStats* known = Known(ticket(tickets.inputs, i), how.same_as);
      const Measured measured =
          known != nullptr ? Measured{*known} : samples_.Measure(inputs[i], TensorKind::kInput);
      largest_input = std::max(largest_input, measured.stats.absmax);
      // The module that made it is the one to blame, unless it only breaks in the cast.
      how.judge = known == nullptr || how.cast_to_fp16;
      const auto sample =
          samples_.Add(layer_id, TensorKind::kInput, call * 256 + static_cast<int32_t>(i),
                       inputs[i], measured, how);
      if (known == nullptr) Remember(ticket(tickets.inputs, i), sample);
    }
  }
  if (!samples_.Watches(TensorKind::kActivation)) {
    return std::ranges::any_of(outputs, [](const TensorView& each) { return HasNonFinite(each); });
  }
  bool nonfinite = false;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Measured measured = samples_.Measure(outputs[i], TensorKind::kActivation);
    const TensorStats& stats = measured.stats;
    nonfinite = nonfinite || stats.nonfinite() > 0;
    SampleOptions how;
    how.columns = layers_.at(layer_id).owns_parameters;
    if (stats.above_fp16 > 0 && largest_input >= 0) how.producer = largest_input < 65520 ? 1 : 0;
    const auto sample =
        samples_.Add(layer_id, TensorKind::kActivation, call * 256 + static_cast<int32_t>(i),
                     outputs[i], measured, how);
    Remember(ticket(tickets.outputs, i), sample);
  }
  return nonfinite;
}

void CallSamples::SampleResidual(int64_t layer_id, const TensorView& in, const TensorView& out) {
  if (in.dtype != out.dtype || in.data == out.data || !SameLayout(in, out)) return;
  const std::optional<Judgement> judged = samples_.Judge(in.dtype, TensorKind::kActivation, false);
  if (!judged || judged->plain_fp32 || judged->scaled) return;
  const SampleRow* const addend = samples_.NewestActivationBelow(layers_.at(layer_id).name);
  if (addend == nullptr || addend->stats.numel != in.numel()) return;
  const TensorStats& added = addend->stats;
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
  residual.addend_layer = addend->layer;
  residual.input_rms = ComputeStats(before->view()).rms();
  residual.addend_rms = added.rms();
  residuals_.push_back(residual);
}

void CallSamples::RaiseResiduals(int64_t step, Alerts& out) {
  for (Residual& residual : residuals_) {
    residual.name = layers_.at(residual.layer).name;
    residual.addend = layers_.at(residual.addend_layer).name;
    ResidualCondition(step, residual, out);
  }
}

}  // namespace mpnanny
