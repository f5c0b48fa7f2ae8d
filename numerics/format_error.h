// What a tensor would lose if it were stored in a narrower format: relative errors of rounding its
// elements to FP16, BF16 and FP8.
//
// Pure functions on borrowed memory, as tensor_stats.h; safe from any thread. Counts, the largest
// magnitude and the root mean square are of all elements; errors are of all elements up to
// kMostRounded of them, beyond that of so many that are spread over the tensor, always the same
// ones, so that a large tensor costs little more than reading it once.
#ifndef MPNANNY_NUMERICS_FORMAT_ERROR_H_
#define MPNANNY_NUMERICS_FORMAT_ERROR_H_

#include <cstdint>

#include "numerics/tensor_view.h"

namespace mpnanny {

inline constexpr int64_t kMostRounded = 16'384;

// Errors are relative, in the L2 norm, over the finite elements: ‖round(x) − x‖₂ / ‖x‖₂. Rounding
// is to nearest, ties to even, with subnormals; what is beyond the largest number of the format
// becomes that number. A tensor of zeros has the error 0; NaN where there is no finite element, or
// squares leave the range of double.
struct FormatErrors {
  int64_t numel = 0;
  int64_t finite = 0;
  double absmax = 0;  // of the finite elements, as is rms
  double rms = 0;
  double fp16 = 0, bf16 = 0;
  // The values are multiplied by a power of two before and divided by it afterwards: by that which
  // makes the error least.
  double e4m3 = 0, e5m2 = 0;
  int e4m3_scale = 0, e5m2_scale = 0;  // exponents of these powers
  int64_t fp16_overflow = 0;           // finite, and infinite once rounded
  int64_t fp16_underflow = 0;          // not 0, and 0 once rounded
};

// A dtype without a reading, or a view that is `known`, gives `numel` 0.
FormatErrors MeasureFormats(const TensorView& view);

}  // namespace mpnanny

#endif  // MPNANNY_NUMERICS_FORMAT_ERROR_H_
