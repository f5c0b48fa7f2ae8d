#include "numerics/update_stats.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "numerics/element_reader.h"
#include "numerics/format.h"

namespace mpnanny {
namespace {

using internal::ElementReader;
using internal::kBlock;

struct Spacing {
  int mantissa_bits = 0, min_exponent = 0;
};

Spacing SpacingOf(DType dtype) {
  const auto of = [](Format format) {
    return Spacing{Info(format).mantissa_bits, Info(format).min_exponent};
  };
  switch (dtype) {
    case DType::kFloat32:
      return of(Format::kFp32);
    case DType::kFloat16:
      return of(Format::kFp16);
    case DType::kBFloat16:
      return of(Format::kBf16);
    case DType::kFloat8E4M3:
      return of(Format::kE4M3);
    case DType::kFloat8E5M2:
      return of(Format::kE5M2);
    case DType::kFloat64:
      return {52, -1022};
    case DType::kUnknown:
      break;
  }
  return {};
}

// Without ldexp, which is a call for each element.
double HalfUlpAt(const Spacing& spacing, double value) {
  const int field = static_cast<int>(std::bit_cast<uint64_t>(value) >> 52 & 0x7ff);
  const int exponent = std::max(field - 1023, spacing.min_exponent) - spacing.mantissa_bits - 1;
  if (exponent < -1022) return std::ldexp(1.0, exponent);
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

bool CanPair(const TensorView& a, const TensorView& b) {
  return a.dtype != DType::kUnknown && b.dtype != DType::kUnknown && a.numel() == b.numel();
}

// Calls `pair(weights, others, updates, count)` for blocks of both, which sets the updates and
// returns how many are frozen.
template <typename Pair>
UpdateStats ForPairs(const TensorView& weight, const TensorView& other, Pair pair) {
  UpdateStats found;
  ElementReader weights(weight), others(other);
  double a[kBlock], b[kBlock], updates[kBlock];
  for (int64_t left = weight.numel(); left > 0;) {
    const int64_t count = std::min(left, kBlock);
    weights.Read(count, a);
    others.Read(count, b);
    found.frozen += pair(a, b, updates, count);
    const int64_t shape[] = {count};
    Merge(found.update, ComputeStats({updates, DType::kFloat64, shape, {}}));
    left -= count;
  }
  return found;
}

// Where one of two stored values is not finite, the difference is not 0 either.
UpdateStats Moved(const TensorView& before, const TensorView& after, ElementReader* gradient) {
  return ForPairs(before, after,
                  [&](const double* weights, const double* next, double* updates, int64_t count) {
                    double slopes[kBlock];
                    if (gradient != nullptr) {
                      gradient->Read(count, slopes);
                    } else {
                      std::fill_n(slopes, count, 1.0);
                    }
                    int64_t frozen = 0;
                    for (int64_t i = 0; i < count; ++i) {
                      updates[i] = next[i] - weights[i];
                      frozen += static_cast<int64_t>(updates[i] == 0) &
                                static_cast<int64_t>(weights[i] != 0) &
                                static_cast<int64_t>(slopes[i] != 0);
                    }
                    return frozen;
                  });
}

}  // namespace

double HalfUlp(DType dtype, double value) {
  return dtype == DType::kUnknown ? 0 : HalfUlpAt(SpacingOf(dtype), value);
}

UpdateStats ComputeUpdate(const TensorView& before, const TensorView& after) {
  if (!CanPair(before, after) || before.dtype != after.dtype) return {};
  return Moved(before, after, nullptr);
}

UpdateStats ComputeUpdate(const TensorView& before, const TensorView& after,
                          const TensorView& gradient) {
  if (!CanPair(before, after) || before.dtype != after.dtype || !CanPair(before, gradient))
    return {};
  ElementReader slopes(gradient);
  return Moved(before, after, &slopes);
}

UpdateStats JudgeUpdate(const TensorView& weight, const TensorView& update) {
  if (!CanPair(weight, update)) return {};
  const Spacing spacing = SpacingOf(weight.dtype);
  return ForPairs(weight, update,
                  [&](const double* weights, const double* others, double* updates, int64_t count) {
                    std::copy(others, others + count, updates);
                    int64_t frozen = 0;
                    for (int64_t i = 0; i < count; ++i) {
                      frozen += updates[i] != 0 && std::isfinite(weights[i]) &&
                                std::fabs(updates[i]) < HalfUlpAt(spacing, weights[i]);
                    }
                    return frozen;
                  });
}

}  // namespace mpnanny
