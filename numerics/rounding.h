// Rounding of magnitudes to a format by two additions, for loops over many elements; sums go by
// lanes, as clones.h says. Internal to numerics/.
#ifndef MPNANNY_NUMERICS_ROUNDING_H_
#define MPNANNY_NUMERICS_ROUNDING_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "numerics/format.h"

namespace mpnanny::internal {

inline constexpr int kLanes = 8;

template <typename T>
T SumOfLanes(const T (&lanes)[kLanes]) {
  T sum = 0;
  for (const T lane : lanes) sum += lane;
  return sum;
}

// The magnitude of what is finite, 0 for what is not (a NaN is not smaller than anything).
inline double FiniteMagnitude(double value) {
  const double magnitude = std::fabs(value);
  return magnitude <= std::numeric_limits<double>::max() ? magnitude : 0.0;
}

// The numbers of a format divided by a power of two.
struct Grid {
  double largest = 0, smallest_normal = 0;
  int mantissa_bits = 0;

  static Grid Of(Format format, int scale) {
    const FormatInfo& info = Info(format);
    return {std::ldexp(info.max, -scale), std::ldexp(info.min_normal, -scale), info.mantissa_bits};
  }

  // `magnitude` is at most twice `largest`: what comes out above that does not fit. Adding and
  // subtracting 1.5 times a power of two rounds to the spacing that doubles have there: it is
  // chosen so that this is the format's at the value's exponent.
  double Round(double magnitude) const {
    constexpr int64_t kExponent = 0x7ffLL << 52, kHalf = 1LL << 51;
    const int64_t shift = static_cast<int64_t>(52 - mantissa_bits) << 52;
    const double normal = magnitude > smallest_normal ? magnitude : smallest_normal;
    const int64_t exponent = std::bit_cast<int64_t>(normal) & kExponent;
    const double rounder = std::bit_cast<double>((exponent + shift) | kHalf);
    return (magnitude + rounder) - rounder;
  }
};

}  // namespace mpnanny::internal

#endif  // MPNANNY_NUMERICS_ROUNDING_H_
