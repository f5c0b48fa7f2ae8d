// Equal losses and unequal gradient norms at the first step: the two forward passes are one, and
// what leads from the loss to the gradients is not.
//
// Pure function on plain values.
#ifndef MPNANNY_ENGINES_COMPARISON_GRADIENT_PATH_H_
#define MPNANNY_ENGINES_COMPARISON_GRADIENT_PATH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "engines/comparison/course.h"

namespace mpnanny::comparison {

struct NormFactor {
  int64_t step = 0;                                       // the first that has both norms
  double loss_a = 0, loss_b = 0, norm_a = 0, norm_b = 0;  // there
  double factor = 1;       // b's norms over a's, the median of `steps`
  double scale_ratio = 1;  // b's loss scale over a's
  int64_t steps = 0;
};

// From the first common step on b's gradient norm is a's times one factor that no rounding makes,
// while the losses there are equal within `rounding` (relative).
std::optional<NormFactor> FindNormFactor(const std::vector<Point>& points, double rounding);

}  // namespace mpnanny::comparison

#endif  // MPNANNY_ENGINES_COMPARISON_GRADIENT_PATH_H_
