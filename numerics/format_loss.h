// What the elements of a tensor become in another format: counts that are exact, and errors.
//
// Pure functions on borrowed memory, as tensor_stats.h; safe from any thread. Every element is
// rounded (to nearest, ties to even, with subnormals), and everything is computed in double.
#ifndef MPNANNY_NUMERICS_FORMAT_LOSS_H_
#define MPNANNY_NUMERICS_FORMAT_LOSS_H_

#include <cstdint>
#include <vector>

#include "numerics/format.h"
#include "numerics/tensor_view.h"

namespace mpnanny {

// The 99th percentile of the relative errors is of so many elements at the most, which are spread
// evenly over the tensor.
inline constexpr int64_t kMostRanked = 1 << 22;

struct FormatLoss {
  int64_t numel = 0;
  int64_t nonzero = 0;    // finite and not 0
  int64_t underflow = 0;  // of these, that become 0
  int64_t subnormal = 0;  // that become a subnormal number of the format
  int64_t overflow = 0;   // whose rounding is not finite
  int64_t saturated = 0;  // above 0.9 times the format's largest number, `overflow` included
  int64_t distorted = 0;  // further off than half an ulp of a normal number, or not finite
  // |rounded − x| / |x| of elements that are not 0 and finite before and after; NaN if there are
  // none.
  double mean_error = 0, p99_error = 0, max_error = 0;
  // 10·log10(Σx² / Σ(x−rounded)²) over elements that are finite before and after; +Inf where
  // nothing is lost, NaN where there is nothing.
  double sqnr_db = 0;
};

// `scale`: elements are multiplied by 2^scale before they are rounded, and divided by it again.
FormatLoss MeasureLoss(const TensorView& view, Format format, int scale = 0);

// The exponent of the largest power of two by which a tensor of this largest magnitude can be
// multiplied without overflow: with it as little as possible is subnormal or 0. 0 for a magnitude
// that is 0 or not finite.
int BestScale(Format format, double absmax);

// One dimension of a tensor that is reduced in `format`: with an accumulator of that format, one
// element after the other, against the same in double.
struct DimensionLoss {
  int dim = 0;
  int64_t size = 0;
  double imbalance = 1;  // largest magnitude of its largest slice over that of its smallest, not 0
  double absorbed = 0;   // share of the addends, not 0, that leave the running sum as it was
  // Relative errors in the L2 norm over all results; Inf where one is not finite, NaN where double
  // gives 0 or nothing.
  double sum_error = 0, mean_error = 0, norm_error = 0;
};

// Elements that are reduced; of a larger tensor the first slices along its first dimension.
inline constexpr int64_t kMostReduced = 1 << 22;

// Of each dimension; empty for tensors without dimensions, without elements, or of more than 8.
std::vector<DimensionLoss> MeasureDimensions(const TensorView& view, Format format);

}  // namespace mpnanny

#endif  // MPNANNY_NUMERICS_FORMAT_LOSS_H_
