// A single spike: a few steps at which one of two runs leaves what both show before and after.
// Means of windows, by which curves part (curve.h), do not show it.
//
// Pure functions on plain values.
#ifndef MPNANNY_ENGINES_COMPARISON_SPIKE_H_
#define MPNANNY_ENGINES_COMPARISON_SPIKE_H_

#include <cstdint>
#include <optional>

#include "engines/comparison/curve.h"

namespace mpnanny::comparison {

struct CurveSpike {
  int64_t first_step = 0, step = 0;  // where it begins, where it is highest
  double a = 0, b = 0;               // at the latter
  double limit = 0;                  // by how much noise lets them differ there
  int64_t steps = 0;                 // of the spike, as far as it is beyond noise
};

// The highest spike: beyond rounding, the noise of a single step, and twice what the run without it
// ever leaves its own level by. `rounding` is relative. nullopt: none, or a curve that is not
// positive, of which no factor can be told.
std::optional<CurveSpike> FindSpike(const Curve& curve, double rounding);

}  // namespace mpnanny::comparison

#endif  // MPNANNY_ENGINES_COMPARISON_SPIKE_H_
