#include "engines/comparison/spike.h"

#include <algorithm>
#include <cmath>

namespace mpnanny::comparison {
namespace {

constexpr size_t kAround = 12;  // steps on either side that a level is told from
constexpr size_t kLeastSteps = 12;
constexpr double kLeastFactor = 1.5;
constexpr double kTimesOwn = 2;  // of the farthest that the other run leaves its level by

// How far each value lies from the median of those around it.
std::vector<double> OffLevel(const std::vector<double>& values) {
  std::vector<double> off;
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t from = i > kAround ? i - kAround : 0;
    const size_t to = std::min(i + kAround + 1, values.size());
    off.push_back(values[i] - Median({values.begin() + static_cast<ptrdiff_t>(from),
                                      values.begin() + static_cast<ptrdiff_t>(to)}));
  }
  return off;
}

double Farthest(const std::vector<double>& off) {
  double farthest = 0;
  // At its ends a curve's level is that of one side.
  for (size_t i = 1; i + 1 < off.size(); ++i) farthest = std::max(farthest, std::fabs(off[i]));
  return farthest;
}

}  // namespace

std::optional<CurveSpike> FindSpike(const Curve& raw, double rounding) {
  const Curve curve = Paired(raw);
  const size_t n = curve.steps.size();
  if (n < kLeastSteps || !AllPositive(curve.a) || !AllPositive(curve.b)) return std::nullopt;
  std::vector<double> a, b;
  for (size_t i = 0; i < n; ++i) {
    a.push_back(std::log(curve.a[i]));
    b.push_back(std::log(curve.b[i]));
  }
  const std::vector<double> off_a = OffLevel(a), off_b = OffLevel(b);
  const double own_a = Farthest(off_a), own_b = Farthest(off_b);
  const double noise =
      rounding + LimitInDeviations(n) * std::sqrt(2.0) *
                     std::max(OwnVariation(a.data(), n), OwnVariation(b.data(), n));
  const auto limit_at = [&](size_t i) {
    // The run that keeps its level there is the measure.
    const double own = std::fabs(off_a[i]) < std::fabs(off_b[i]) ? own_a : own_b;
    return std::max({noise, kTimesOwn * own, std::log(kLeastFactor)});
  };
  // How far the two move apart there, against their levels: curves that lie apart all along have no
  // spike for that.
  const auto apart = [&](size_t i) { return std::fabs(off_b[i] - off_a[i]); };
  std::optional<size_t> highest;
  for (size_t i = 0; i < n; ++i) {
    // Where the two are together neither stands out: there they part for good, or meet.
    if (std::fabs(b[i] - a[i]) <= limit_at(i)) continue;
    if (apart(i) > limit_at(i) && (!highest || apart(i) > apart(*highest))) highest = i;
  }
  if (!highest) return std::nullopt;
  size_t first = *highest, last = *highest;
  while (first > 0 && apart(first - 1) > noise) --first;
  while (last + 1 < n && apart(last + 1) > noise) ++last;
  CurveSpike spike;
  spike.first_step = curve.steps[first];
  spike.step = curve.steps[*highest];
  spike.steps = static_cast<int64_t>(last - first + 1);
  spike.a = curve.a[*highest];
  spike.b = curve.b[*highest];
  spike.limit = spike.a * std::expm1(limit_at(*highest));
  return spike;
}

}  // namespace mpnanny::comparison
