// What two sound runs may differ by: the figures from which the limits of compare_runs are made.
//
// Two runs in two precisions differ at once, by rounding, and after some steps two runs of one kind
// are as far apart as two seeds. A limit therefore has three parts, and none of them is a share
// picked by hand:
//   * rounding: the half-ulp of the coarser format, by the square root of the roundings on the way
//     (docs/compare_runs.md, "What counts as noise": one BF16 matmul shows 1.0 to 1.25 half-ulps at
//     its 99th percentile);
//   * the reference's own variation from sample to sample, trend taken out;
//   * the reach of the crowd: how far other layers of the same kind moved the other way. Noise has
//     no direction.
// docs/compare_runs.md tells the method and what it was measured on. Pure functions.
#ifndef MPNANNY_ENGINES_COMPARISON_NOISE_H_
#define MPNANNY_ENGINES_COMPARISON_NOISE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace mpnanny::comparison {

// A gap in a series: not measured, or not finite.
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Of finite values; NaN for none.
double Median(std::vector<double> values);

// Standard deviation of a series' noise from step to step: each value against the middle of its
// neighbours, so that a straight trend counts for nothing; by the median, so that a few spikes
// count for little. Values that are not finite are gaps. 0 for fewer than three in a row.
double OwnVariation(const double* values, size_t count);

// Standard deviations that the largest of `comparisons` normal draws stays within, plus one for
// tails that are heavier than normal ones.
double LimitInDeviations(size_t comparisons);

// The relative difference that rounding explains after `depth` roundings of relative error
// `half_ulp` each.
double RoundingLimit(double half_ulp, double depth);

// Two windows' means, and how sure their difference is.
struct WindowDifference {
  double a = 0, b = 0;  // means
  double standard_error =
      0;  // of b - a; successive values are not independent, which it allows for
  size_t count = 0;
};
// Over pairs that are both finite; `count` 0 if there is none.
WindowDifference CompareWindows(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace mpnanny::comparison

#endif  // MPNANNY_ENGINES_COMPARISON_NOISE_H_
