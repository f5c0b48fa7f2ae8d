#include "numerics/format_error.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "numerics/clones.h"
#include "numerics/elements.h"
#include "numerics/format.h"
#include "numerics/rounding.h"

namespace mpnanny {
namespace {

using internal::FiniteMagnitude;
using internal::Grid;
using internal::kBlock;
using internal::kLanes;
using internal::SumOfLanes;

constexpr int64_t kGroups = kMostRounded / kLanes;  // elements are taken by so many at a time
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
// Where the squares of magnitudes, of errors and of scaled limits stay in double's range.
constexpr double kLeast = 0x1p-500, kMost = 0x1p500;
// What rounds to infinity in FP16 (ties to even: the mantissa of the largest number is odd), and
// what to 0.
constexpr double kFp16Overflow = 65520, kFp16Underflow = 0x1p-25;

struct Counts {
  double max[kLanes] = {}, squares[kLanes] = {};
  int64_t finite[kLanes] = {}, over[kLanes] = {}, under[kLanes] = {};
};

// `count` is a multiple of kLanes.
MPNANNY_CLONES void AddCounts(const double* values, int64_t count, Counts& out) {
  Counts sums = out;
  for (int64_t at = 0; at < count; at += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const double value = FiniteMagnitude(values[at + lane]);
      sums.max[lane] = value > sums.max[lane] ? value : sums.max[lane];
      sums.squares[lane] += value * value;
      sums.finite[lane] += std::fabs(values[at + lane]) == value ? 1 : 0;
      sums.over[lane] += value >= kFp16Overflow ? 1 : 0;
      sums.under[lane] += ((value > 0) & (value <= kFp16Underflow)) ? 1 : 0;
    }
  }
  out = sums;
}

struct Squares {
  double error = 0;
  double saturated = 0;  // of that, by what is beyond the largest number

  Squares operator+(const Squares& other) const {
    return {error + other.error, saturated + other.saturated};
  }
  Squares operator*(double weight) const { return {error * weight, saturated * weight}; }
};

// `values` are magnitudes between 0 and kMost; `count` is a multiple of kLanes.
MPNANNY_CLONES Squares RoundAll(const double* values, int64_t count, const Grid& given) {
  const Grid grid = given;
  double errors[kLanes] = {}, saturated[kLanes] = {};
  for (int64_t at = 0; at < count; at += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const double value = values[at + lane];
      const double held = grid.Round(value < grid.largest ? value : grid.largest);
      const double error = (value - held) * (value - held);
      errors[lane] += error;
      saturated[lane] += value > grid.largest ? error : 0.0;
    }
  }
  return {SumOfLanes(errors), SumOfLanes(saturated)};
}

// The elements that are rounded, as magnitudes, and the largest one of the tensor, which decides
// the scale and may not be among them.
struct Chosen {
  alignas(64) double values[kMostRounded + kLanes];
  int64_t count = 0;  // a multiple of kLanes
  double largest[kLanes] = {};
  double weight = 0;  // of `largest`: the part of the tensor that was chosen, 0 for all of it

  Squares Round(const Grid& grid) const {
    const Squares sums = RoundAll(values, count, grid);
    return weight > 0 ? sums + RoundAll(largest, kLanes, grid) * weight : sums;
  }
  // Every magnitude is 0 on a grid of nothing, and its error itself.
  double SquaredNorm() const { return Round({0, 1, 0}).error; }
};

// Which elements are chosen: all up to kMostRounded; beyond that of each of kGroups equal stretches
// one group, at random but always the same.
class Groups {
 public:
  explicit Groups(int64_t numel) : numel_(numel), all_(numel <= kMostRounded) {
    if (all_) {
      end_ = numel;
    } else {
      Next();
    }
  }

  // Elements of the group that is next; beyond the last one there are none.
  int64_t first() const { return first_; }
  int64_t end() const { return end_; }
  void Next() {
    ++stretch_;
    const int64_t groups = numel_ / kLanes;
    const int64_t from = stretch_ * groups / kGroups, to = (stretch_ + 1) * groups / kGroups;
    first_ = (from + static_cast<int64_t>(Hash(static_cast<uint64_t>(stretch_)) %
                                          static_cast<uint64_t>(std::max<int64_t>(1, to - from)))) *
             kLanes;
    if (all_ || stretch_ >= kGroups) first_ = numel_;
    end_ = std::min(first_ + kLanes, numel_);
  }

 private:
  static uint64_t Hash(uint64_t value) {  // SplitMix64
    value += 0x9e3779b97f4a7c15u;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
  }

  int64_t numel_;
  bool all_;
  int64_t stretch_ = -1, first_ = 0, end_ = 0;
};

// Goes through a tensor once, block by block.
struct Pass {
  explicit Pass(int64_t numel) : groups(numel) {}

  void Add(const double* values, int64_t count) {
    const int64_t whole = count / kLanes * kLanes;
    AddCounts(values, whole, counts);
    if (whole < count) {
      double rest[kLanes] = {};
      std::copy(values + whole, values + count, rest);
      AddCounts(rest, kLanes, counts);
      padding += kLanes - (count - whole);
    }
    while (groups.first() < at + count) {
      const int64_t from = std::max(groups.first(), at), to = std::min(groups.end(), at + count);
      for (int64_t i = from; i < to; ++i) {
        chosen.values[chosen.count++] = FiniteMagnitude(values[i - at]);
      }
      if (to < groups.end()) break;  // the rest of it is in the next block
      groups.Next();
    }
    at += count;
  }
  void Add(const float* values, int64_t count) {
    double wide[kBlock];
    std::copy(values, values + count, wide);
    Add(wide, count);
  }

  Counts counts;
  int64_t padding = 0;  // zeros that stand for no element
  int64_t at = 0;       // elements so far
  Groups groups;
  Chosen chosen;
};

double Error(const Chosen& chosen, Format format, double norm) {
  return std::sqrt(chosen.Round(Grid::Of(format, 0)).error / norm);
}

// Every scale up to that at which the largest element just fits rounds what is normal alike, and
// smaller ones lose more of what is small. Beyond it what is cut off grows with every scale: once
// that alone is more than the least error, there is nothing left to find.
double BestError(const Chosen& chosen, Format format, double absmax, double norm, int& scale) {
  const double largest = Info(format).max;
  int tried = std::ilogb(largest) - std::ilogb(absmax);
  if (std::ldexp(absmax, tried) > largest) --tried;
  scale = tried;
  double least = std::numeric_limits<double>::infinity();
  for (;; ++tried) {
    const Squares sums = chosen.Round(Grid::Of(format, tried));
    if (sums.error < least) {
      least = sums.error;
      scale = tried;
    }
    if (sums.saturated >= least) return std::sqrt(least / norm);
  }
}

}  // namespace

FormatErrors MeasureFormats(const TensorView& view) {
  FormatErrors found;
  found.fp16 = found.bf16 = found.e4m3 = found.e5m2 = kNan;
  if (view.dtype == DType::kUnknown || view.known != nullptr) return found;
  const int64_t numel = found.numel = view.numel();
  Pass pass(numel);
  ForEachElements(view, [&](const auto* values, int64_t count) { pass.Add(values, count); });
  const Counts& counts = pass.counts;
  Chosen& chosen = pass.chosen;
  if (numel > kMostRounded) {
    chosen.weight = static_cast<double>(chosen.count) / static_cast<double>(numel);
  }
  while (chosen.count % kLanes != 0) chosen.values[chosen.count++] = 0;
  found.finite = SumOfLanes(counts.finite) - pass.padding;
  found.fp16_overflow = SumOfLanes(counts.over);
  found.fp16_underflow = SumOfLanes(counts.under);
  if (found.finite == 0) return found;
  found.absmax = *std::max_element(counts.max, counts.max + kLanes);
  found.rms = std::sqrt(SumOfLanes(counts.squares) / static_cast<double>(found.finite));
  if (found.absmax == 0) {
    found.fp16 = found.bf16 = found.e4m3 = found.e5m2 = 0;
    return found;
  }
  if (found.absmax < kLeast || found.absmax > kMost) return found;
  chosen.largest[0] = found.absmax;
  const double norm = chosen.SquaredNorm();
  found.fp16 = Error(chosen, Format::kFp16, norm);
  found.bf16 = Error(chosen, Format::kBf16, norm);
  found.e4m3 = BestError(chosen, Format::kE4M3, found.absmax, norm, found.e4m3_scale);
  found.e5m2 = BestError(chosen, Format::kE5M2, found.absmax, norm, found.e5m2_scale);
  return found;
}

}  // namespace mpnanny
