// How far the values of a tensor are from what they should be: its elements compared with a
// reference that was computed in FP64, in one pass over both.
//
// Pure functions on borrowed memory, as tensor_stats.h; safe from any thread. Elements pair up by
// their logical index; the layouts of the tensors may differ. Tensors whose numbers of elements
// differ, or whose dtype has no reading, give an empty result (`numel` 0).
#ifndef MPNANNY_NUMERICS_REFERENCE_ERROR_H_
#define MPNANNY_NUMERICS_REFERENCE_ERROR_H_

#include <cstdint>

#include "numerics/tensor_view.h"

namespace mpnanny {

inline constexpr double kMatters = 1e-2;
inline constexpr double kManyFlushed = 0.3;  // of those that are not 0
inline constexpr double kMuchFlushed = 0.5;  // of the squared error

// "Held" is the value that the training computes with. Sums run over the elements that are finite
// in both, in double; extremes are magnitudes. Where a sum of squares is more than double holds
// (elements above 1e154), all of them are of elements that were scaled down by one power of two:
// their ratios are right.
struct ReferenceError {
  int64_t numel = 0;
  int64_t range = 0;           // held is NaN or infinite, the reference is finite
  int64_t undefined = 0;       // the reference is NaN, and so is the held value
  int64_t infinite = 0;        // the reference is infinite, and the held value is not finite
  int64_t reference_only = 0;  // the reference is not finite, the held value is
  int64_t nonzero = 0;         // the reference is finite and not 0
  int64_t flushed = 0;         // of these: the held value is 0
  int64_t wrong_integers = 0;  // the reference is a whole number, the held value is another number
  int64_t clipped = 0;         // held is the largest of its format, the reference is larger
  bool integers = false;       // every finite element of the reference is a whole number
  double squared_error = 0;    // sum of (held - reference)^2
  double squared_reference = 0;
  double squared_flushed = 0;  // of the reference where the held value was flushed to 0
  double max_error = 0;
  double max_reference = 0;
  double max_held = 0;
  // Of `flushed`, counted where these are many (kManyFlushed) or much (kMuchFlushed), else 0:
  int64_t flushed_that_matter = 0;  // at least kMatters of the reference's root mean square
  int64_t flushed_in_range = 0;     // the format of the held values has a number for them
  int64_t flushed_that_matter_in_range = 0;

  int64_t nonfinite() const { return range + undefined + infinite; }
};

ReferenceError CompareWithReference(const TensorView& held, const TensorView& reference);

// What an operator that changes a tensor in place did to it, held and in the reference. Only
// elements that are finite in all four count.
struct ChangeError {
  int64_t numel = 0;
  int64_t moved = 0;          // the reference changed
  int64_t lost = 0;           // of these, the held value is exactly as it was
  double change = 0;          // sum of |change of the reference|
  double lost_change = 0;     // of that, where the held value stayed
  double kept_change = 0;     // sum of the held changes, each along the reference's direction
  double squared_change = 0;  // of the reference
  double squared_error = 0;   // sum of (held change - reference change)^2
};

ChangeError CompareChange(const TensorView& held_before, const TensorView& held_after,
                          const TensorView& reference_before, const TensorView& reference_after);

}  // namespace mpnanny

#endif  // MPNANNY_NUMERICS_REFERENCE_ERROR_H_
