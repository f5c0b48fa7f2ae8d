#include "numerics/growth.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace mpnanny {
namespace {

// Of the points that are looked at, this share of the newest is fitted, but kLeastGrowthPoints.
constexpr double kNewest = 0.6;
// The slope has to be so many of its standard errors, and to lift the figure by this factor over the
// points that are fitted: a figure that hovers is no growth.
constexpr double kClearSlope = 5;
constexpr double kLeastRise = 1.25;
// The slope of the newer half has to be this share of the whole's: what levels off is not told.
constexpr double kStillGrows = 0.7;
// The bound has to be reached within this share of the steps that were seen.
constexpr double kHorizon = 1;

struct Line {
  double slope = 0, at_end = 0;  // at the last step
  double slope_error = 0, scatter = 0;
};

template <typename F>
Line Fit(std::span<const GrowthPoint> points, F value_of) {
  const auto n = static_cast<double>(points.size());
  double mean_x = 0, mean_y = 0;
  for (const GrowthPoint& each : points) {
    mean_x += each.step / n;
    mean_y += value_of(each.value) / n;
  }
  double xx = 0, xy = 0;
  for (const GrowthPoint& each : points) {
    const double x = each.step - mean_x;
    xx += x * x;
    xy += x * (value_of(each.value) - mean_y);
  }
  Line line;
  if (!(xx > 0)) return line;
  line.slope = xy / xx;
  line.at_end = mean_y + line.slope * (points.back().step - mean_x);
  double squares = 0;
  for (const GrowthPoint& each : points) {
    const double off = value_of(each.value) - mean_y - line.slope * (each.step - mean_x);
    squares += off * off;
  }
  line.scatter = std::sqrt(squares / std::max(1.0, n - 2));
  line.slope_error = line.scatter / std::sqrt(xx);
  return line;
}

double Log(double value) { return std::log(value); }
double Same(double value) { return value; }

// Mean square of what a model misses, in logarithms: the same measure for both.
double Missed(std::span<const GrowthPoint> points, const Line& line, bool by_factor) {
  double sum = 0;
  for (const GrowthPoint& each : points) {
    const double at = line.at_end + line.slope * (each.step - points.back().step);
    const double made = by_factor ? at : std::log(std::max(at, 1e-300));
    sum += (std::log(each.value) - made) * (std::log(each.value) - made);
  }
  return sum / static_cast<double>(points.size());
}

template <typename F>
bool StillGrows(std::span<const GrowthPoint> points, const Line& whole, F value_of) {
  const Line half = Fit(points.subspan(points.size() / 2), value_of);
  return half.slope > kStillGrows * whole.slope - 2 * half.slope_error;
}

}  // namespace

std::optional<Crossing> ForecastCrossing(std::span<const GrowthPoint> all, double bound) {
  std::vector<GrowthPoint> kept;
  for (const GrowthPoint& each : all) {
    if (each.value > 0 && std::isfinite(each.value)) kept.push_back(each);
  }
  if (kept.size() < kLeastGrowthPoints || !(bound > kept.back().value)) return std::nullopt;
  const size_t newest = std::max(
      kLeastGrowthPoints, static_cast<size_t>(kNewest * static_cast<double>(kept.size())));
  const std::span<const GrowthPoint> points = std::span(kept).last(newest);
  const Line by_factor = Fit(points, Log), by_amount = Fit(points, Same);
  const double last = points.back().step;
  if (!(by_factor.slope > kClearSlope * by_factor.slope_error) ||
      by_factor.slope * (last - points.front().step) < std::log(kLeastRise)) {
    return std::nullopt;
  }
  if (!StillGrows(points, by_amount, Same)) return std::nullopt;
  const double in_factor = (std::log(bound) - by_factor.at_end) / by_factor.slope;
  const double in_amount = (bound - by_amount.at_end) / by_amount.slope;
  const bool better = Missed(points, by_factor, true) <= Missed(points, by_amount, false);
  const double ahead = std::max(0.0, better ? in_factor : in_amount);
  const double other = std::max(0.0, better ? in_amount : in_factor);
  if (!std::isfinite(ahead) || ahead > kHorizon * (last - kept.front().step)) return std::nullopt;
  const Line& line = better ? by_factor : by_amount;
  const double spread = 2 * (ahead * line.slope_error + line.scatter) / line.slope;
  Crossing crossing;
  crossing.step = last + ahead;
  // The model that fits less well pulls the range half its way.
  crossing.earliest = last + std::max(0.0, std::min(ahead - spread, (ahead + other) / 2));
  crossing.latest = last + std::max(ahead + spread, (ahead + other) / 2);
  crossing.per_step = std::expm1(by_factor.slope);
  return crossing;
}

}  // namespace mpnanny
