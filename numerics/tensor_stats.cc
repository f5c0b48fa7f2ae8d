#include "numerics/tensor_stats.h"

#include <cmath>
#include <limits>

#include "numerics/element_blocks.h"

// Marks a kernel that is compiled twice, for AVX2 and for the baseline; the loader picks by what
// the CPU has. Results are equal bit for bit: lanes and their order are fixed in the source.
// Sanitizers start before the loader's choice can run.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__gnu_linux__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define MPNANNY_KERNEL __attribute__((target_clones("avx2", "default")))
#else
#define MPNANNY_KERNEL
#endif

namespace mpnanny {
namespace {

using internal::ForEachBlock;
using internal::kBlock;

// FP32 bit patterns of magnitudes; comparing them as integers compares the magnitudes.
constexpr uint32_t kMagnitude = 0x7fffffffu;
constexpr uint32_t kInfinity = 0x7f800000u;
constexpr uint32_t kFlushed =
    std::bit_cast<uint32_t>(0x1p-25f);  // the largest that FP16 rounds to 0
constexpr uint32_t kNormal =
    std::bit_cast<uint32_t>(2047 * 0x1p-25f);  // the smallest that it rounds to 2^-14
constexpr uint32_t kOverflow =
    std::bit_cast<uint32_t>(65520.0f);  // the smallest that it rounds to infinity
constexpr float kNearMax = 0.9f * 65504.0f;
constexpr uint32_t kNear = std::bit_cast<uint32_t>(kNearMax);

// A block of finite FP32 values folded into `stats` and the running sums. Written so that every
// loop vectorises: counts and extremes on integers, sums in double, four at a time and in a fixed
// order.
struct Sums {
  bool shifted = false;
  double shift = 0, deviation = 0, squared_deviation = 0, squares = 0;
};

template <typename Float>
inline __attribute__((always_inline)) void AddMomentsInline(const Float* values, int64_t count,
                                                            Sums& sums) {
  if (!sums.shifted) {
    sums.shift = static_cast<double>(values[0]);
    sums.shifted = true;
  }
  constexpr int kLanes = 8;
  double deviation[kLanes] = {}, squared[kLanes] = {}, squares[kLanes] = {};
  const double shift = sums.shift;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const double x = static_cast<double>(values[i + lane]);
      const double d = x - shift;
      deviation[lane] += d;
      squared[lane] += d * d;
      squares[lane] += x * x;
    }
  }
  for (; i < count; ++i) {
    const double x = static_cast<double>(values[i]);
    const double d = x - shift;
    deviation[0] += d;
    squared[0] += d * d;
    squares[0] += x * x;
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    sums.deviation += deviation[lane];
    sums.squared_deviation += squared[lane];
    sums.squares += squares[lane];
  }
}

MPNANNY_KERNEL void AddMoments(const float* values, int64_t count, Sums& sums) {
  AddMomentsInline(values, count, sums);
}
MPNANNY_KERNEL void AddMoments(const double* values, int64_t count, Sums& sums) {
  AddMomentsInline(values, count, sums);
}

void AddExtremes(double low, double high, double absmax, double absmin, int64_t finite,
                 TensorStats& stats) {
  if (stats.finite == 0) {
    stats.min = low;
    stats.max = high;
  } else {
    stats.min = std::min(stats.min, low);
    stats.max = std::max(stats.max, high);
  }
  stats.absmax = std::max(stats.absmax, absmax);
  if (absmin > 0 && (stats.absmin == 0 || absmin < stats.absmin)) stats.absmin = absmin;
  stats.finite += finite;
}

// A float's bits as an integer that orders as the float does (-0 just below +0).
inline int32_t OrderedBits(uint32_t bits) {
  return static_cast<int32_t>(bits) ^ (static_cast<int32_t>(bits) >> 31 & 0x7fffffff);
}
inline float FromOrdered(int32_t ordered) {
  return std::bit_cast<float>(ordered ^ (ordered >> 31 & 0x7fffffff));
}

// Extremes on integers: a comparison of floats may not be reordered, so it would not vectorise.
MPNANNY_KERNEL void AddCounts(const float* values, int64_t count, TensorStats& stats) {
  int32_t zeros = 0, below = 0, subnormal = 0, above = 0, near = 0;
  int32_t largest = 0, smallest = std::numeric_limits<int32_t>::max();
  int32_t low = std::numeric_limits<int32_t>::max(), high = std::numeric_limits<int32_t>::min();
  for (int64_t i = 0; i < count; ++i) {
    const auto magnitude = static_cast<int32_t>(std::bit_cast<uint32_t>(values[i]) & kMagnitude);
    zeros += magnitude < 1;
    below += magnitude <= static_cast<int32_t>(kFlushed);    // zeros too
    subnormal += magnitude < static_cast<int32_t>(kNormal);  // and these
    above += magnitude >= static_cast<int32_t>(kOverflow);
    near += magnitude > static_cast<int32_t>(kNear);
  }
  // A loop of its own: the block is in the first cache, and the compiler takes each loop whole.
  for (int64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<uint32_t>(values[i]);
    const auto magnitude = static_cast<int32_t>(bits & kMagnitude);
    // Of 0 this makes the largest integer, so that it does not count as the smallest magnitude.
    const auto nonzero = static_cast<int32_t>((static_cast<uint32_t>(magnitude) - 1) & kMagnitude);
    largest = std::max(largest, magnitude);
    smallest = std::min(smallest, nonzero);
    low = std::min(low, OrderedBits(bits));
    high = std::max(high, OrderedBits(bits));
  }
  stats.zeros += zeros;
  stats.below_fp16 += below - zeros;
  stats.subnormal_fp16 += subnormal - below;
  stats.above_fp16 += above;
  stats.near_fp16_max += near;
  AddExtremes(FromOrdered(low), FromOrdered(high), std::bit_cast<float>(largest),
              zeros == count ? 0.0f : std::bit_cast<float>(smallest + 1), count, stats);
}

void AddFinite(const float* values, int64_t count, TensorStats& stats, Sums& sums) {
  if (count == 0) return;
  AddCounts(values, count, stats);
  AddMoments(values, count, sums);
}

void AddFinite(const double* values, int64_t count, TensorStats& stats, Sums& sums) {
  if (count == 0) return;
  double low = values[0], high = values[0], absmax = 0, absmin = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double x = values[i], magnitude = std::fabs(x);
    low = std::min(low, x);
    high = std::max(high, x);
    absmax = std::max(absmax, magnitude);
    if (magnitude == 0) {
      ++stats.zeros;
      continue;
    }
    if (absmin == 0 || magnitude < absmin) absmin = magnitude;
    stats.below_fp16 += magnitude <= 0x1p-25;
    stats.subnormal_fp16 += magnitude > 0x1p-25 && magnitude < 2047 * 0x1p-25;
    stats.above_fp16 += magnitude >= 65520.0;
    stats.near_fp16_max += magnitude > static_cast<double>(kNearMax);
  }
  AddExtremes(low, high, absmax, absmin, count, stats);
  AddMoments(values, count, sums);
}

MPNANNY_KERNEL bool AllFinite(const float* values, int64_t count) {
  uint32_t worst = 0;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(values[i]) & kMagnitude;
    worst = std::max(worst, magnitude);
  }
  return worst < kInfinity;
}

bool AllFinite(const double* values, int64_t count) {
  constexpr uint64_t kInf64 = 0x7ff0000000000000u;
  uint64_t bad = 0;
  for (int64_t i = 0; i < count; ++i)
    bad |= (std::bit_cast<uint64_t>(values[i]) & kInf64) == kInf64;
  return bad == 0;
}

template <typename Float>
inline __attribute__((always_inline)) double BlockSquaresInline(const Float* values,
                                                                int64_t count) {
  constexpr int kLanes = 16;
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const double x = static_cast<double>(values[i + lane]);
      lanes[lane] += x * x;
    }
  }
  for (; i < count; ++i)
    lanes[0] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  double total = 0;
  for (double lane : lanes) total += lane;
  return total;
}
MPNANNY_KERNEL double BlockSquares(const float* values, int64_t count) {
  return BlockSquaresInline(values, count);
}
MPNANNY_KERNEL double BlockSquares(const double* values, int64_t count) {
  return BlockSquaresInline(values, count);
}

// Counts what is not finite and hands on the rest, packed.
template <typename Float>
void AddMixed(const Float* values, int64_t count, TensorStats& stats, Sums& sums) {
  Float finite[kBlock];
  int64_t kept = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (std::isnan(values[i])) {
      ++stats.nan;
    } else if (std::isinf(values[i])) {
      ++(values[i] > 0 ? stats.posinf : stats.neginf);
    } else {
      finite[kept++] = values[i];
    }
  }
  AddFinite(finite, kept, stats, sums);
}

// True if a value's exponent field is all ones: in FP16 and BF16 exactly NaN and the infinities.
MPNANNY_KERNEL bool AnyWithExponent(const uint16_t* values, int64_t count, uint16_t exponent) {
  uint16_t bad = 0;
  for (int64_t i = 0; i < count; ++i)
    bad |= static_cast<uint16_t>((values[i] & exponent) == exponent);
  return bad != 0;
}

bool HalvesNonFinite(const TensorView& view, uint16_t exponent) {
  const auto* base = static_cast<const uint16_t*>(view.data);
  bool found = false;
  internal::ForEachRun(view, [&](int64_t offset, int64_t count, int64_t stride) {
    for (int64_t done = 0; done < count && !found; done += 4 * kBlock) {
      const int64_t n = std::min(4 * kBlock, count - done);
      const uint16_t* from = base + offset + done * stride;
      if (stride == 1) {
        found = AnyWithExponent(from, n, exponent);
      } else {
        for (int64_t i = 0; i < n; ++i) found = found || (from[i * stride] & exponent) == exponent;
      }
    }
  });
  return found;
}

}  // namespace

std::string_view DTypeName(DType dtype) {
  constexpr std::string_view kNames[kDTypes] = {
      "unknown", "float32", "float16", "bfloat16", "float64", "float8_e4m3fn", "float8_e5m2"};
  return kNames[static_cast<int>(dtype)];
}

int ElementBytes(DType dtype) {
  constexpr int kBytes[kDTypes] = {0, 4, 2, 2, 8, 1, 1};
  return kBytes[static_cast<int>(dtype)];
}

int64_t TensorView::numel() const {
  int64_t product = 1;
  for (int64_t size : shape) product *= size;
  return product;
}

double TensorStats::std() const {
  return finite > 0 ? std::sqrt(squared_deviation / static_cast<double>(finite)) : 0;
}
double TensorStats::rms() const {
  return finite > 0 ? std::sqrt(squares / static_cast<double>(finite)) : 0;
}
double TensorStats::l2() const { return std::sqrt(squares); }

TensorStats ComputeStats(const TensorView& view) {
  TensorStats stats;
  stats.numel = view.numel();
  Sums sums;
  ForEachBlock(view, [&](const auto* values, int64_t count) {
    if (AllFinite(values, count)) {
      AddFinite(values, count, stats, sums);
    } else {
      AddMixed(values, count, stats, sums);
    }
  });
  if (stats.finite > 0) {
    const auto n = static_cast<double>(stats.finite);
    stats.mean = sums.shift + sums.deviation / n;
    stats.squared_deviation =
        std::max(0.0, sums.squared_deviation - sums.deviation * (sums.deviation / n));
    stats.squares = sums.squares;
  }
  return stats;
}

void Merge(TensorStats& into, const TensorStats& part) {
  into.numel += part.numel;
  into.nan += part.nan;
  into.posinf += part.posinf;
  into.neginf += part.neginf;
  into.zeros += part.zeros;
  into.below_fp16 += part.below_fp16;
  into.subnormal_fp16 += part.subnormal_fp16;
  into.above_fp16 += part.above_fp16;
  into.near_fp16_max += part.near_fp16_max;
  if (part.finite == 0) return;
  if (into.finite == 0) {
    into.mean = part.mean;
    into.squared_deviation = part.squared_deviation;
  } else {
    const auto a = static_cast<double>(into.finite), b = static_cast<double>(part.finite);
    const double delta = part.mean - into.mean;
    into.mean += delta * (b / (a + b));
    into.squared_deviation += part.squared_deviation + delta * delta * (a * (b / (a + b)));
  }
  into.squares += part.squares;
  AddExtremes(part.min, part.max, part.absmax, part.absmin, part.finite, into);
}

TensorStats Scaled(const TensorStats& stats, double factor) {
  TensorStats scaled = stats;
  scaled.min = (factor > 0 ? stats.min : stats.max) * factor;
  scaled.max = (factor > 0 ? stats.max : stats.min) * factor;
  scaled.absmax = stats.absmax * std::fabs(factor);
  scaled.absmin = stats.absmin * std::fabs(factor);
  scaled.mean = stats.mean * factor;
  scaled.squared_deviation = stats.squared_deviation * factor * factor;
  scaled.squares = stats.squares * factor * factor;
  return scaled;
}

bool HasNonFinite(const TensorView& view) {
  if (view.dtype == DType::kFloat16) return HalvesNonFinite(view, 0x7c00);
  if (view.dtype == DType::kBFloat16) return HalvesNonFinite(view, 0x7f80);
  bool found = false;
  ForEachBlock(
      view, [&](const auto* values, int64_t count) { found = found || !AllFinite(values, count); });
  return found;
}

double SumOfSquares(const TensorView& view) {
  double total = 0;
  ForEachBlock(view,
               [&](const auto* values, int64_t count) { total += BlockSquares(values, count); });
  return total;
}

ExponentHistogram CountExponents(const TensorView& view) {
  ExponentHistogram counts{};
  // Four tables, because neighbours share exponents and one counter would wait for itself.
  std::array<std::array<uint32_t, 256>, 4> part{};
  int64_t pending = 0;
  const auto fold = [&] {
    for (auto& table : part) {
      for (size_t bin = 0; bin < 256; ++bin) counts[bin] += table[bin];
      table.fill(0);
    }
    pending = 0;
  };
  ForEachBlock(view, [&](const auto* values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      float x = static_cast<float>(values[i]);
      if constexpr (sizeof(values[0]) == 8) {
        constexpr float kMax = std::numeric_limits<float>::max();
        if (std::isinf(x) && std::isfinite(values[i])) x = kMax;
      }
      ++part[static_cast<size_t>(i & 3)][(std::bit_cast<uint32_t>(x) & kMagnitude) >> 23];
    }
    pending += count;
    if (pending > int64_t{1} << 30) fold();  // before a 32-bit counter can wrap
  });
  fold();
  return counts;
}

}  // namespace mpnanny
