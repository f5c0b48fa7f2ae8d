// When a figure that grows reaches a bound, from some of its values over the steps.
//
// Three models are fitted to the newer part of the points by least squares: growth by a factor a
// step, by a power of the step, and by an amount a step. The best one tells the step, all together
// the range; the scatter counts, since the largest of scattered values reaches the bound first. Nothing is
// told where the growth is not clear beside its scatter, slows down, or reaches the bound later than
// the record is long. Pure functions; safe from any thread.
#ifndef MPNANNY_NUMERICS_GROWTH_H_
#define MPNANNY_NUMERICS_GROWTH_H_

#include <cstddef>
#include <optional>
#include <span>

namespace mpnanny {

struct GrowthPoint {
  double step = 0;
  double value = 0;  // > 0 and finite; others are left out
};

struct Crossing {
  double step = 0;               // at which the bound is reached
  double earliest = 0, latest = 0;  // about two standard errors, and what other models say
  double per_step = 0;           // factor by which it has grown a step, minus 1
};

inline constexpr size_t kLeastGrowthPoints = 8;

// `points` in order of step. nullopt: no crossing can be told.
std::optional<Crossing> ForecastCrossing(std::span<const GrowthPoint> points, double bound);

}  // namespace mpnanny

#endif  // MPNANNY_NUMERICS_GROWTH_H_
