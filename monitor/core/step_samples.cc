#include "monitor/core/step_samples.h"

#include <algorithm>
#include <utility>

namespace mpnanny {
namespace {

std::string Varints(const ExponentHistogram& counts) {
  std::string bytes;
  for (int64_t count : counts) {
    auto rest = static_cast<uint64_t>(count);
    for (; rest >= 0x80; rest >>= 7) bytes += static_cast<char>(rest | 0x80);
    bytes += static_cast<char>(rest);
  }
  return bytes;
}

}  // namespace

void StepSamples::BeginStep() {
  if (schedule_.full()) gradient_spread_.Clear();
  samples_.clear();
  left_out_ = 0;
}

Measured StepSamples::Measure(const TensorView& view, TensorKind kind) const {
  const bool has_exponents = view.data != nullptr || view.known_exponents != nullptr;
  if (!schedule_.full() || !has_exponents ||
      !(StoresExponents() || kind == TensorKind::kGradient)) {
    return {ComputeStats(view)};
  }
  Measured measured;
  measured.stats = ComputeStats(view, &measured.exponents.emplace());
  return measured;
}

std::optional<size_t> StepSamples::Add(int64_t layer, TensorKind kind, int32_t slot,
                                       const TensorView& view, const Measured& measured,
                                       const SampleOptions& how) {
  const TensorStats& stats = measured.stats;
  if (stats.partial) return std::nullopt;  // of a device's light steps: no row of figures
  if (samples_.size() >= std::max(kMost, kMostPerLayer * layers_.size())) {
    ++left_out_;
    return std::nullopt;
  }
  Sample sample;
  sample.row.step = schedule_.step();
  sample.row.layer = layer;
  sample.row.kind = kind;
  sample.row.slot = slot;
  sample.row.dtype = view.dtype;
  sample.row.stats = how.factor == 1 ? stats : Scaled(stats, how.factor);
  sample.row.frozen = how.frozen;
  sample.producer = how.producer;
  if (how.judge) sample.judged = Judge(view.dtype, kind, how.cast_to_fp16);
  if (sample.judged) {
    sample.shares = MeasureShares(view, stats, *sample.judged);
    // A loss scale grows until gradients reach the top, and falls by itself when one is beyond.
    if (how.factor != 1) sample.shares.near = 0;
    if (how.columns && schedule_.full()) sample.columns = MeasureColumns(view);
  }
  if (measured.exponents) {
    if (kind == TensorKind::kGradient) gradient_spread_.Add(*measured.exponents, how.factor);
    if (StoresExponents()) sample.row.exponents = Varints(*measured.exponents);
  } else if (how.same_as && StoresExponents()) {
    sample.row.exponents = samples_[*how.same_as].row.exponents;
  }
  samples_.push_back(std::move(sample));
  return samples_.size() - 1;
}

const SampleRow* StepSamples::NewestActivationBelow(const std::string& container) const {
  const auto found = std::find_if(samples_.rbegin(), samples_.rend(), [&](const Sample& sample) {
    const std::string& inner = layers_.at(sample.row.layer).name;
    return sample.row.kind == TensorKind::kActivation &&
           (container.empty() || (inner.starts_with(container) && inner.size() > container.size() &&
                                  inner[container.size()] == '.'));
  });
  return found != samples_.rend() ? &found->row : nullptr;
}

void StepSamples::RaiseValues(bool plain, Alerts& out) const {
  for (const Sample& sample : samples_) {
    if (!sample.judged || (sample.judged->plain_fp32 && !plain)) continue;
    ValueConditions({sample.row, layers_.at(sample.row.layer).name, *sample.judged, sample.shares,
                     sample.columns, sample.producer},
                    out);
  }
}

void StepSamples::RaiseGrowth(Alerts& out) {
  if (schedule_.dense()) return;
  for (const Sample& sample : samples_) {
    const SampleRow& row = sample.row;
    const bool forward = row.kind == TensorKind::kInput || row.kind == TensorKind::kActivation;
    if (forward && row.dtype == DType::kFloat16) {
      ahead_.See(row.step, row.layer, row.kind, row.stats);
    }
  }
  ahead_.Raise(
      schedule_.step(), [&](int64_t layer) -> std::string_view { return layers_.at(layer).name; },
      out);
}

void StepSamples::Keep(RunFile& file) {
  if (left_out_ > 0) file.Drop(left_out_);
  for (Sample& sample : samples_) {
    file.PutInRing(sample.row);
    file.Put(std::move(sample.row));
  }
  samples_.clear();
}

}  // namespace mpnanny
