#include "engines/comparison/tensors.h"

#include <algorithm>
#include <cmath>

#include "engines/comparison/noise.h"

namespace mpnanny::comparison {
namespace {

constexpr size_t kMostTensors = 20'000;
constexpr uint32_t kZerosMissing = 8;  // of TensorRow::missing_counts

double Share(const std::optional<int64_t>& count, const std::optional<int64_t>& of) {
  return count && of && *of > 0 ? static_cast<double>(*count) / static_cast<double>(*of) : kNan;
}

Figures FiguresOf(const runs::TensorRow& row) {
  Figures f;
  f[kAbsmax] = row.absmax.value_or(kNan);
  f[kRms] = row.rms.value_or(kNan);
  f[kStd] = row.std.value_or(kNan);
  const bool zeros_known = (row.missing_counts & kZerosMissing) == 0;
  f[kZeros] = zeros_known ? Share(row.zeros, row.numel) : kNan;
  f[kBelowFp16] = Share(row.below_fp16, row.numel);
  f[kFrozen] = Share(row.frozen, row.numel);
  f[kNonFinite] = static_cast<double>(row.NonFinite());
  return f;
}

bool Wanted(int64_t kind, const CommonLayer& layer) {
  switch (kind) {
    case runs::kActivation:
    case runs::kActivationGradient:
    case runs::kGradient:
    case runs::kWeight:
    case runs::kUpdate:
      return true;
    case runs::kInput:
      return layer.position == 0;
    default:
      return false;
  }
}

}  // namespace

const char* MetricName(int metric) {
  constexpr const char* kNames[] = {"absmax",           "rms",          "std",       "zero share",
                                    "below-FP16 share", "frozen share", "non-finite"};
  return metric >= 0 && metric < kMetrics ? kNames[metric] : "";
}

const Pair* Sample::Find(const TensorKey& key) const {
  const auto at =
      std::lower_bound(tensors.begin(), tensors.end(), key,
                       [](const auto& entry, const TensorKey& k) { return entry.first < k; });
  return at != tensors.end() && at->first == key ? &at->second : nullptr;
}

Result<Sample> Tensors::Read(const SampledStep& step) {
  Sample sample;
  sample.step = step;
  MPN_TRY(Add(a_, step.step, true, sample));
  MPN_TRY(Add(b_, step.step, false, sample));
  std::erase_if(sample.tensors,
                [](const auto& entry) { return !entry.second.in_a || !entry.second.in_b; });
  ++samples_read_;
  return sample;
}

// The first call appends, the second joins what is there.
Result<void> Tensors::Add(Side& side, int64_t step, bool is_a, Sample& sample) {
  if (!side.reader) {
    auto reader =
        runs::SampleReader::Create(side.source, {"absmax", "std", "rms", "below_fp16", "frozen"});
    if (!reader) return reader.error();
    side.reader = *std::move(reader);
  }
  MPN_TRY_ASSIGN(auto rows, side.reader->Sample(step));
  for (const runs::TensorRow& row : *rows) {
    const auto index = side.index.find(row.layer_id);
    if (index == side.index.end() || !Wanted(row.kind, layers_.common[index->second])) continue;
    if (row.dtype) NoteFormat(side, *row.dtype);
    const TensorKey key{index->second, row.kind, row.slot};
    if (is_a) {
      if (sample.tensors.size() >= kMostTensors) {
        ++dropped_;
        continue;
      }
      Pair pair;
      pair.a = FiguresOf(row);
      pair.in_a = true;
      pair.numel = row.numel.value_or(0);
      sample.tensors.emplace_back(key, pair);
    } else if (Pair* pair = const_cast<Pair*>(sample.Find(key))) {
      pair->b = FiguresOf(row);
      pair->in_b = true;
      pair->numel = std::min(pair->numel, row.numel.value_or(0));
    }
  }
  if (is_a) {
    std::sort(sample.tensors.begin(), sample.tensors.end(),
              [](const auto& x, const auto& y) { return x.first < y.first; });
  }
  return {};
}

void Tensors::NoteFormat(Side& side, int64_t dtype) {
  if (!side.seen.insert(dtype).second) return;
  if (!side.dtypes) {
    auto names = runs::ReadDtypeNames(side.source);
    side.dtypes = names ? *names : std::map<int64_t, std::string>();
  }
  const auto name = side.dtypes->find(dtype);
  if (name == side.dtypes->end()) return;
  const auto format = FormatFromName(name->second);
  if (format && (!coarsest_ || Info(*format).epsilon > Info(*coarsest_).epsilon)) {
    coarsest_ = format;
  }
}

}  // namespace mpnanny::comparison
