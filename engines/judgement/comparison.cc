#include "engines/judgement/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engines/judgement/thresholds.h"

namespace mpnanny::judgement {

double ErrorOf(const ReferenceError& found) {
  if (found.squared_error <= 0) return 0;
  if (found.squared_reference <= 0) return std::numeric_limits<double>::infinity();
  return std::sqrt(found.squared_error / found.squared_reference);
}

double LeastOfNoise(Element type, double rounding) {
  const double half_ulp = HalfUlp(type) > 0 ? HalfUlp(type) : HalfUlp(Element::kFloat32);
  return std::max(kOfFp64 / half_ulp, rounding);
}

bool IsNoise(const ReferenceError& found, Element type, double rounding) {
  const double least = LeastOfNoise(type, rounding) * std::sqrt(found.squared_error);
  return std::sqrt(found.squared_reference) <= least;
}

ReferenceError Exact(const ReferenceError& found) {
  ReferenceError exact;
  exact.numel = found.numel;
  exact.nonzero = found.nonzero;
  exact.integers = found.integers;
  exact.squared_reference = found.squared_reference;
  exact.max_reference = found.max_reference;
  exact.max_held = found.max_held;
  return exact;
}

}  // namespace mpnanny::judgement
