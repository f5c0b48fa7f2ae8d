#include "numerics/format_loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "numerics/clones.h"
#include "numerics/elements.h"
#include "numerics/rounding.h"

namespace mpnanny {
namespace {

using internal::FiniteMagnitude;
using internal::Grid;
using internal::kBlock;
using internal::kLanes;
using internal::SumOfLanes;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNotRanked = -1;  // of an element that has no relative error

struct Sums {
  double relative[kLanes] = {}, worst[kLanes] = {}, errors[kLanes] = {}, squares[kLanes] = {};
  int64_t nonzero[kLanes] = {}, under[kLanes] = {}, subnormal[kLanes] = {}, over[kLanes] = {},
          saturated[kLanes] = {}, distorted[kLanes] = {};
};

// `values` are magnitudes of finite elements, 0 for others; `count` is a multiple of kLanes.
// `ranks`: the relative error of each.
MPNANNY_CLONES void AddBlock(const double* values, int64_t count, const Grid& grid, Sums& out,
                             double* ranks) {
  Sums sums = out;
  const Grid g = grid;
  const double most = 2 * g.largest, near = 0.9 * g.largest;
  const double half_epsilon = std::ldexp(0.5, -g.mantissa_bits);
  for (int64_t at = 0; at < count; at += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const double value = values[at + lane];
      const double held = g.Round(value < most ? value : most);
      const bool is_over = held > g.largest, is_there = value > 0;
      const bool fits = is_there & !is_over;
      const double error = fits ? std::fabs(held - value) : 0.0;
      const double relative = error / (is_there ? value : 1.0);
      ranks[at + lane] = fits ? relative : kNotRanked;
      sums.relative[lane] += relative;
      sums.worst[lane] = relative > sums.worst[lane] ? relative : sums.worst[lane];
      sums.errors[lane] += error * error;
      sums.squares[lane] += fits ? value * value : 0.0;
      sums.nonzero[lane] += is_there ? 1 : 0;
      sums.under[lane] += (is_there & (held == 0)) ? 1 : 0;
      sums.subnormal[lane] += ((held > 0) & (held < g.smallest_normal)) ? 1 : 0;
      sums.over[lane] += is_over ? 1 : 0;
      sums.saturated[lane] += value > near ? 1 : 0;
      sums.distorted[lane] += (is_over | (relative > half_epsilon)) ? 1 : 0;
    }
  }
  out = sums;
}

// As numpy.percentile(…, 99) interpolates. Changes the order.
double Percentile99(std::vector<double>& ranks) {
  if (ranks.empty()) return kNan;
  const double place = 0.99 * static_cast<double>(ranks.size() - 1);
  const auto low = static_cast<std::ptrdiff_t>(std::floor(place));
  std::nth_element(ranks.begin(), ranks.begin() + low, ranks.end());
  const double below = ranks[static_cast<size_t>(low)];
  if (static_cast<size_t>(low) + 1 >= ranks.size()) return below;
  const double above = *std::min_element(ranks.begin() + low + 1, ranks.end());
  return below + (place - std::floor(place)) * (above - below);
}

// Elements in order as doubles, those that are not finite as 0: at most kMostReduced, whole slices
// of the first dimension. Fills in the sizes that are left.
std::vector<double> Elements(const TensorView& view, std::vector<int64_t>& shape) {
  const int64_t numel = view.numel();
  const int64_t slice = shape[0] > 0 ? numel / shape[0] : 0;
  if (slice == 0 || slice > kMostReduced) return {};
  shape[0] = std::min(shape[0], kMostReduced / slice);
  std::vector<double> values;
  values.reserve(static_cast<size_t>(shape[0] * slice));
  const auto most = static_cast<int64_t>(values.capacity());
  ForEachElements(view, [&](const auto* block, int64_t count) {
    const int64_t left = most - static_cast<int64_t>(values.size());
    for (int64_t i = 0; i < std::min(count, left); ++i) {
      const auto value = static_cast<double>(block[i]);
      values.push_back(std::isfinite(value) ? value : 0.0);
    }
  });
  return values;
}

double Rounded(const Grid& grid, double value) {
  if (!(std::fabs(value) <= 2 * grid.largest)) return std::copysign(kInfinity, value);
  const double held = grid.Round(std::fabs(value));
  return std::copysign(held > grid.largest ? kInfinity : held, value);
}

// Relative error in the L2 norm of several results.
class ResultError {
 public:
  void Add(double held, double exact) {
    if (!std::isfinite(held)) is_infinite_ = true;
    errors_ += (held - exact) * (held - exact);
    squares_ += exact * exact;
  }
  double value() const {
    if (is_infinite_) return kInfinity;
    return squares_ > 0 ? std::sqrt(errors_ / squares_) : kNan;
  }

 private:
  bool is_infinite_ = false;
  double errors_ = 0, squares_ = 0;
};

// Along one dimension: `outer` × `size` × `inner` elements.
DimensionLoss Reduce(const std::vector<double>& values, const Grid& grid, int64_t outer,
                     int64_t size, int64_t inner) {
  DimensionLoss found;
  found.size = size;
  std::vector<double> largest(static_cast<size_t>(size), 0.0);
  ResultError sums, means, norms;
  int64_t addends = 0, absorbed = 0;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      double sum = 0, exact_sum = 0, squares = 0, exact_squares = 0;
      for (int64_t k = 0; k < size; ++k) {
        const double value = values[static_cast<size_t>((o * size + k) * inner + i)];
        double& slice = largest[static_cast<size_t>(k)];
        slice = std::max(slice, std::fabs(value));
        const double held = Rounded(grid, value);
        const double before = sum;
        sum = Rounded(grid, sum + held);
        addends += value != 0 ? 1 : 0;
        absorbed += (value != 0 && sum == before) ? 1 : 0;
        exact_sum += value;
        squares = Rounded(grid, squares + Rounded(grid, held * held));
        exact_squares += value * value;
      }
      const auto count = static_cast<double>(size);
      sums.Add(sum, exact_sum);
      means.Add(Rounded(grid, sum / count), exact_sum / count);
      norms.Add(Rounded(grid, std::sqrt(squares)), std::sqrt(exact_squares));
    }
  }
  const double most = *std::max_element(largest.begin(), largest.end());
  double least = most;
  for (const double each : largest) {
    if (each > 0) least = std::min(least, each);
  }
  found.imbalance = most > 0 ? most / least : 1;
  found.absorbed =
      addends > 0 ? static_cast<double>(absorbed) / static_cast<double>(addends) : 0;
  found.sum_error = sums.value();
  found.mean_error = means.value();
  found.norm_error = norms.value();
  return found;
}

}  // namespace

FormatLoss MeasureLoss(const TensorView& view, Format format, int scale) {
  FormatLoss found;
  found.mean_error = found.p99_error = found.max_error = found.sqnr_db = kNan;
  if (view.dtype == DType::kUnknown || view.known != nullptr) return found;
  found.numel = view.numel();
  const Grid grid = Grid::Of(format, scale);
  const int64_t step = (found.numel + kMostRanked - 1) / kMostRanked;
  Sums sums;
  std::vector<double> ranked;
  ranked.reserve(static_cast<size_t>(std::min(found.numel, kMostRanked)));
  int64_t next = 0;  // the next element that is ranked
  int64_t at = 0;
  ForEachElements(view, [&](const auto* block, int64_t count) {
    alignas(64) double values[kBlock + kLanes];
    double ranks[kBlock + kLanes];
    for (int64_t i = 0; i < count; ++i) values[i] = FiniteMagnitude(static_cast<double>(block[i]));
    int64_t padded = count;
    while (padded % kLanes != 0) values[padded++] = 0;
    AddBlock(values, padded, grid, sums, ranks);
    for (; next < at + count; next += step) {
      if (ranks[next - at] != kNotRanked) ranked.push_back(ranks[next - at]);
    }
    at += count;
  });
  found.nonzero = SumOfLanes(sums.nonzero);
  found.underflow = SumOfLanes(sums.under);
  found.subnormal = SumOfLanes(sums.subnormal);
  found.overflow = SumOfLanes(sums.over);
  found.saturated = SumOfLanes(sums.saturated);
  found.distorted = SumOfLanes(sums.distorted);
  const int64_t fitting = found.nonzero - found.overflow;
  if (fitting == 0) return found;
  found.mean_error = SumOfLanes(sums.relative) / static_cast<double>(fitting);
  found.max_error = *std::max_element(sums.worst, sums.worst + kLanes);
  found.p99_error = Percentile99(ranked);
  const double errors = SumOfLanes(sums.errors);
  found.sqnr_db = errors > 0 ? 10 * std::log10(SumOfLanes(sums.squares) / errors) : kInfinity;
  return found;
}

int BestScale(Format format, double absmax) {
  if (!(absmax > 0) || !std::isfinite(absmax)) return 0;
  const FormatInfo& info = Info(format);
  int scale = std::ilogb(info.max) - std::ilogb(absmax);
  if (std::ldexp(absmax, scale) > info.max) --scale;
  // The scaled format's own numbers stay normal doubles.
  constexpr int kLeastExponent = -1020;
  return std::min(scale, info.min_exponent - info.mantissa_bits - kLeastExponent);
}

std::vector<DimensionLoss> MeasureDimensions(const TensorView& view, Format format) {
  constexpr size_t kMostDimensions = 8;
  std::vector<DimensionLoss> found;
  if (view.dtype == DType::kUnknown || view.known != nullptr || view.shape.empty() ||
      view.shape.size() > kMostDimensions || view.numel() == 0) {
    return found;
  }
  std::vector<int64_t> shape(view.shape.begin(), view.shape.end());
  const std::vector<double> values = Elements(view, shape);
  if (values.empty()) return found;
  const Grid grid = Grid::Of(format, 0);
  int64_t outer = 1;
  auto inner = static_cast<int64_t>(values.size());
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    inner /= shape[dim];
    found.push_back(Reduce(values, grid, outer, shape[dim], inner));
    found.back().dim = static_cast<int>(dim);
    outer *= shape[dim];
  }
  return found;
}

}  // namespace mpnanny
