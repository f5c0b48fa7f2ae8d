#include "tools/analyze_tensor/analysis.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "engines/tensors/elements.h"

namespace mpnanny::analyze_tensor {
namespace {

constexpr int kBias = 127;  // of FP32's exponent field, in which elements are counted

// How many elements have an exponent in [from, to) as powers of two.
int64_t CountBetween(const ExponentHistogram& exponents, int from, int to) {
  int64_t count = 0;
  for (int field = std::max(1, from + kBias); field < std::min(255, to + kBias); ++field) {
    count += exponents[static_cast<size_t>(field)];
  }
  return count;
}

Ranked RankOne(const TensorView& view, Format target) {
  Ranked ranked;
  ExponentHistogram exponents{};
  const TensorStats stats = ComputeStats(view, &exponents);
  const FormatInfo& info = Info(target);
  ranked.numel = stats.numel;
  ranked.nonfinite = stats.nonfinite();
  ranked.absmax = stats.absmax;
  ranked.absmin = stats.absmin;
  ranked.grid = GridOf(stats);
  if (stats.numel == 0) return ranked;
  const auto numel = static_cast<double>(stats.numel);
  const int least = info.min_exponent - info.mantissa_bits;  // of the smallest subnormal number
  const int64_t over = CountBetween(exponents, info.max_exponent + 1, 128);
  const bool is_over = !std::isfinite(RoundTo(target, stats.absmax));
  ranked.overflow = static_cast<double>(std::max<int64_t>(over, is_over ? 1 : 0)) / numel;
  ranked.underflow = static_cast<double>(CountBetween(exponents, -126, least - 1)) / numel;
  ranked.subnormal =
      static_cast<double>(CountBetween(exponents, least - 1, info.min_exponent)) / numel;
  return ranked;
}

}  // namespace

Result<Analysis> AnalyzeOne(const TensorView& view, std::optional<Format> target,
                            const CancelToken& cancel) {
  Analysis found;
  found.stats = ComputeStats(view);
  for (const Format format : kJudged) {
    if (target && *target != format) continue;
    MPN_TRY(cancel.Check());
    InFormat in;
    in.format = format;
    in.plain = MeasureLoss(view, format);
    in.scaled = in.plain;
    if (in.plain.underflow + in.plain.subnormal + in.plain.overflow > 0) {
      in.best_scale = BestScale(format, found.stats.absmax);
      in.scaled = MeasureLoss(view, format, in.best_scale);
    }
    found.formats.push_back(in);
  }
  MPN_TRY(cancel.Check());
  found.reduced_in = target.value_or(Format::kBf16);
  found.dims = MeasureDimensions(view, found.reduced_in);
  return found;
}

Result<std::vector<Ranked>> RankAll(const tensor_files::TensorFile& file, Format target,
                                    const CancelToken& cancel) {
  std::vector<Ranked> ranked;
  ranked.reserve(file.entries().size());
  for (size_t at = 0; at < file.entries().size(); ++at) {
    MPN_TRY(cancel.Check());
    const auto elements = tensor_files::Elements::Read(file.entries()[at]);
    Ranked row;
    if (elements) {
      row = RankOne(elements->view(), target);
    } else {
      row.problem = elements.error().message;
    }
    row.entry = at;
    ranked.push_back(std::move(row));
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
    const auto badness = [](const Ranked& row) {
      return std::make_tuple(row.problem.empty(), row.nonfinite > 0, row.overflow > 0,
                             row.underflow, row.overflow, row.subnormal);
    };
    return badness(a) > badness(b);
  });
  return ranked;
}

}  // namespace mpnanny::analyze_tensor
