// A figure that both runs have at every step (loss, gradient norm, loss scale): where its two
// curves part beyond noise, and how they end.
//
// Pure functions on plain values.
#ifndef MPNANNY_ENGINES_COMPARISON_CURVE_H_
#define MPNANNY_ENGINES_COMPARISON_CURVE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engines/comparison/noise.h"

namespace mpnanny::comparison {

// Both runs' values by common step; NaN where one was not measured or not finite.
struct Curve {
  std::vector<int64_t> steps;
  std::vector<double> a, b;
};

// A curve without the steps at which one run has no value.
Curve Paired(const Curve& curve);

// True if the curves can be compared by their logarithms.
bool AllPositive(const std::vector<double>& values);

// Steps that a mean is taken over, where the caller names none: a twentieth of them, 5 to 200.
size_t DefaultWindow(size_t steps);

struct CurveParting {
  int64_t step = 0;
  double a = 0, b = 0;  // at that step
  double limit = 0;     // by how much they may differ there; in units of the value
  // More than 1: no single step is beyond the noise; the three are those of the mean of so many
  // values from there on.
  size_t mean_of = 1;
};

// The first of two successive windows whose means differ beyond rounding, the reference's variation
// within a window and its change from window to window, and within it the first step that does.
// `rounding` is relative. Positive curves are compared by their logarithms.
std::optional<CurveParting> FindParting(const Curve& curve, size_t window, double rounding);

// The first of `window` successive steps at all of which the scales differ by more than four: one
// halving more or less is chance.
std::optional<CurveParting> FindScaleParting(const Curve& curve, size_t window);

// How two curves end, and what each has gained from its first window to its last.
struct Ending {
  WindowDifference last;  // of the last window that both have
  double start_a = 0, start_b = 0;
  double noise_a = 0, noise_b = 0;  // of a change between two windows: two deviations
  double late_a = 0, late_b = 0;    // change from the middle of the curve to its end
  double late_noise = 0;
  int64_t first_step = 0, last_step = 0;  // of the last window
};
std::optional<Ending> CompareEndings(const Curve& curve, size_t window);

}  // namespace mpnanny::comparison

#endif  // MPNANNY_ENGINES_COMPARISON_CURVE_H_
