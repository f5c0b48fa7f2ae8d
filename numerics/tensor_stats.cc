#include "numerics/tensor_stats.h"

#include <cmath>
#include <limits>

#include "numerics/element_blocks.h"
#include "numerics/kernels.h"

namespace mpnanny {
namespace {

using internal::BlockStats;
using internal::CurrentKernels;
using internal::ForEachBlock;
using internal::kBlock;
using internal::Kernels;
using internal::ScalarKernels;

// A block cut in what the vector kernels take and the rest, which goes to the scalar ones.
struct Cut {
  size_t type;
  const char* rest;
  int64_t whole, left;

  Cut(const Kernels& kernels, DType dtype, const char* values, int64_t count)
      : type(static_cast<size_t>(dtype)),
        rest(values + (count - count % kernels.multiple) * ElementBytes(dtype)),
        whole(count - count % kernels.multiple),
        left(count % kernels.multiple) {}
};

// Before the count of finite elements grows: it tells whether there were any.
void AddExtremes(double low, double high, double absmin, TensorStats& stats) {
  if (stats.finite == 0) {
    stats.min = low;
    stats.max = high;
  } else {
    stats.min = std::min(stats.min, low);
    stats.max = std::max(stats.max, high);
  }
  stats.absmax = std::max(0 - stats.min, stats.max);  // of 0 no -0
  if (absmin > 0 && (stats.absmin == 0 || absmin < stats.absmin)) stats.absmin = absmin;
}

// Pairwise update of mean and squared deviations (Chan, Golub, LeVeque 1979), and of what else is
// kept of finite elements.
void AddFinite(double mean, double squared_deviation, double squares, int64_t finite,
               TensorStats& stats) {
  if (stats.finite == 0) {
    stats.mean = mean;
    stats.squared_deviation = squared_deviation;
  } else {
    const auto a = static_cast<double>(stats.finite), b = static_cast<double>(finite);
    const double delta = mean - stats.mean;
    stats.mean += delta * (b / (a + b));
    stats.squared_deviation += squared_deviation + delta * delta * (a * (b / (a + b)));
  }
  stats.squares += squares;
  stats.finite += finite;
}

// Two parts about the same shift.
void Join(BlockStats& into, const BlockStats& part) {
  into.zeros += part.zeros;
  into.below += part.below;
  into.subnormal += part.subnormal;
  into.above += part.above;
  into.near += part.near;
  into.min = std::min(into.min, part.min);
  into.max = std::max(into.max, part.max);
  if (part.smallest > 0 && (into.smallest == 0 || part.smallest < into.smallest))
    into.smallest = part.smallest;
  into.deviation += part.deviation;
  into.squared += part.squared;
  into.mantissas |= part.mantissas;
  into.off_fp16 = into.off_fp16 || part.off_fp16;
  into.off_bf16 = into.off_bf16 || part.off_bf16;
}

// Adds up blocks. The shift of a block is the mean of the one before it, so that a large mean with
// a small spread keeps its digits; where that turns out to be far from this block's values, the
// block, which is in the cache, is read again about its own mean.
class Accumulator {
 public:
  Accumulator(DType dtype, TensorStats& stats) : dtype_(dtype), stats_(stats) {}

  void Add(const char* values, int64_t count) {
    BlockStats block;
    if (!Compute(dtype_, values, count, block)) return AddMixed(values, count);
    Fold(dtype_, values, count, block);
  }

 private:
  // False if an element is not finite.
  bool Compute(DType dtype, const char* values, int64_t count, BlockStats& out) const {
    const Cut cut(kernels_, dtype, values, count);
    if (cut.whole > 0 && !kernels_.stats[cut.type](values, cut.whole, shift_, out)) return false;
    if (cut.left == 0) return true;
    BlockStats rest;
    if (!ScalarKernels().stats[cut.type](cut.rest, cut.left, shift_, rest)) return false;
    if (cut.whole > 0) {
      Join(out, rest);
    } else {
      out = rest;
    }
    return true;
  }

  void Fold(DType dtype, const char* values, int64_t count, BlockStats& block) {
    const auto n = static_cast<double>(count);
    double correction = block.deviation * (block.deviation / n);
    if (correction > 0.9 * block.squared) {  // further off than three standard deviations
      const double mean = shift_ + block.deviation / n;
      if (std::isfinite(mean) && mean != shift_) {
        shift_ = mean;
        Compute(dtype, values, count, block);
        correction = block.deviation * (block.deviation / n);
      }
    }
    const double squares = block.squared + shift_ * (2 * block.deviation) + shift_ * (shift_ * n);
    const double mean = shift_ + block.deviation / n;
    AddExtremes(block.min, block.max, block.smallest, stats_);
    AddFinite(mean, std::max(0.0, block.squared - correction), squares, count, stats_);
    stats_.zeros += block.zeros;
    stats_.below_fp16 += block.below;
    stats_.subnormal_fp16 += block.subnormal;
    stats_.above_fp16 += block.above;
    stats_.near_fp16_max += block.near;
    stats_.mantissas |= block.mantissas;
    stats_.off_fp16 = stats_.off_fp16 || block.off_fp16;
    stats_.off_bf16 = stats_.off_bf16 || block.off_bf16;
    if (std::isfinite(mean)) shift_ = mean;
  }

  // Counts what is not finite and goes on with the rest, packed.
  void AddMixed(const char* values, int64_t count) {
    if (dtype_ == DType::kFloat64) return AddMixedAs<double>(dtype_, values, count);
    float decoded[kBlock];
    internal::DecodeElements(dtype_, values, count, decoded);
    AddMixedAs<float>(DType::kFloat32, reinterpret_cast<const char*>(decoded), count);
  }

  template <typename Float>
  void AddMixedAs(DType dtype, const char* values, int64_t count) {
    Float finite[kBlock];
    int64_t kept = 0;
    for (int64_t i = 0; i < count; ++i) {
      Float x;
      std::memcpy(&x, values + i * static_cast<int64_t>(sizeof(x)), sizeof(x));
      finite[kept] = x;
      kept += std::isfinite(x);
      stats_.nan += std::isnan(x);
      stats_.posinf += x == std::numeric_limits<Float>::infinity();
      stats_.neginf += x == -std::numeric_limits<Float>::infinity();
    }
    if (kept == 0) return;
    BlockStats block;
    const char* const packed = reinterpret_cast<const char*>(finite);
    Compute(dtype, packed, kept, block);
    Fold(dtype, packed, kept, block);
  }

  const Kernels& kernels_ = CurrentKernels();
  DType dtype_;
  TensorStats& stats_;
  double shift_ = 0;
};

void AddExponents(DType dtype, const char* values, int64_t count, ExponentHistogram& counts) {
  const Kernels& kernels = CurrentKernels();
  uint8_t fields[kBlock];
  const Cut cut(kernels, dtype, values, count);
  kernels.exponents[cut.type](values, cut.whole, fields);
  ScalarKernels().exponents[cut.type](cut.rest, cut.left, fields + cut.whole);
  kernels.count_bytes(fields, count, counts.data());
}

void Repeat(ExponentHistogram& counts, int64_t times) {
  for (int64_t& count : counts) count *= times;
}

// Each element counted `times`.
void Repeat(TensorStats& stats, int64_t times) {
  for (int64_t* count :
       {&stats.nan, &stats.posinf, &stats.neginf, &stats.zeros, &stats.finite, &stats.below_fp16,
        &stats.subnormal_fp16, &stats.above_fp16, &stats.near_fp16_max}) {
    *count *= times;
  }
  stats.squared_deviation *= static_cast<double>(times);
  stats.squares *= static_cast<double>(times);
}

}  // namespace

double TensorStats::std() const {
  return finite > 0 ? std::sqrt(squared_deviation / static_cast<double>(finite)) : 0;
}
double TensorStats::rms() const {
  return finite > 0 ? std::sqrt(squares / static_cast<double>(finite)) : 0;
}
double TensorStats::l2() const { return std::sqrt(squares); }
bool TensorStats::on_fp16() const {
  return !grid_unknown && !off_fp16 && above_fp16 == 0 && (mantissas & internal::kBelowFp16) == 0;
}
bool TensorStats::on_bf16() const {
  return !grid_unknown && !off_bf16 && (mantissas & internal::kBelowBf16) == 0;
}

std::string_view GridName(Grid grid) {
  constexpr std::string_view kNames[] = {"unknown", "none", "trivial", "bf16", "fp16"};
  return kNames[static_cast<size_t>(grid)];
}

Grid GridOf(const TensorStats& stats) {
  if (stats.grid_unknown) return Grid::kUnknown;
  const bool bf16 = stats.on_bf16();
  if (!bf16 && !stats.on_fp16()) return Grid::kNone;
  constexpr int64_t kHandful = 16;
  constexpr uint64_t kBelowFp8 = (uint64_t{1} << 49) - 1;  // E4M3 has three bits
  if (stats.finite - stats.zeros < kHandful || (stats.mantissas & kBelowFp8) == 0) {
    return Grid::kTrivial;
  }
  // Whole numbers up to 2^p, and whatever goes in as many equal steps, fit in p bits.
  const double steps = bf16 ? 256 : 2048;
  if (stats.absmax <= steps * stats.absmin) return Grid::kTrivial;
  return bf16 ? Grid::kBf16 : Grid::kFp16;
}

TensorStats ComputeStats(const TensorView& view, ExponentHistogram* exponents) {
  if (view.known != nullptr) {
    if (exponents != nullptr) *exponents = CountExponents(view);
    return *view.known;
  }
  TensorStats stats;
  stats.numel = view.numel();
  stats.grid_unknown = view.dtype != DType::kFloat32 && view.dtype != DType::kFloat64;
  const internal::Layout layout = internal::MemoryLayout(view);
  Accumulator accumulator(view.dtype, stats);
  if (exponents != nullptr) exponents->fill(0);
  ForEachBlock(view, layout, [&](const char* values, int64_t count) {
    accumulator.Add(values, count);
    if (exponents != nullptr) AddExponents(view.dtype, values, count, *exponents);
    return true;
  });
  if (layout.repeats > 1) {
    Repeat(stats, layout.repeats);
    if (exponents != nullptr) Repeat(*exponents, layout.repeats);
  }
  return stats;
}

void Merge(TensorStats& into, const TensorStats& part) {
  into.partial = into.partial || part.partial;
  into.numel += part.numel;
  into.nan += part.nan;
  into.posinf += part.posinf;
  into.neginf += part.neginf;
  into.zeros += part.zeros;
  into.below_fp16 += part.below_fp16;
  into.subnormal_fp16 += part.subnormal_fp16;
  into.above_fp16 += part.above_fp16;
  into.near_fp16_max += part.near_fp16_max;
  into.mantissas |= part.mantissas;
  into.off_fp16 = into.off_fp16 || part.off_fp16;
  into.off_bf16 = into.off_bf16 || part.off_bf16;
  into.grid_unknown = into.grid_unknown || part.grid_unknown;
  if (part.finite == 0) return;
  AddExtremes(part.min, part.max, part.absmin, into);
  AddFinite(part.mean, part.squared_deviation, part.squares, part.finite, into);
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
  if (view.known != nullptr) return view.known->nonfinite() > 0;
  const Kernels& kernels = CurrentKernels();
  bool found = false;
  ForEachBlock(view, internal::MemoryLayout(view), [&](const char* values, int64_t count) {
    const Cut cut(kernels, view.dtype, values, count);
    found = !kernels.all_finite[cut.type](values, cut.whole) ||
            !ScalarKernels().all_finite[cut.type](cut.rest, cut.left);
    return !found;
  });
  return found;
}

double SumOfSquares(const TensorView& view) {
  if (view.known != nullptr)
    return view.known->nonfinite() > 0 ? std::numeric_limits<double>::quiet_NaN()
                                       : view.known->squares;
  const Kernels& kernels = CurrentKernels();
  double total = 0;
  const internal::Layout layout = internal::MemoryLayout(view);
  ForEachBlock(view, layout, [&](const char* values, int64_t count) {
    const Cut cut(kernels, view.dtype, values, count);
    total += kernels.squares[cut.type](values, cut.whole) +
             ScalarKernels().squares[cut.type](cut.rest, cut.left);
    return true;
  });
  return total * static_cast<double>(layout.repeats);
}

ExponentHistogram CountExponents(const TensorView& view) {
  ExponentHistogram counts{};
  if (view.known_exponents != nullptr) return *view.known_exponents;
  if (view.known != nullptr) return counts;
  const internal::Layout layout = internal::MemoryLayout(view);
  ForEachBlock(view, layout, [&](const char* values, int64_t count) {
    AddExponents(view.dtype, values, count, counts);
    return true;
  });
  Repeat(counts, layout.repeats);
  return counts;
}

}  // namespace mpnanny
