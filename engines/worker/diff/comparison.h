// Values of a run beside their references.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_WORKER_DIFF_COMPARISON_H_
#define MPNANNY_ENGINES_WORKER_DIFF_COMPARISON_H_

#include <ATen/core/TensorBody.h>

#include <optional>

#include "numerics/reference_error.h"

namespace mpnanny::worker {

// Nullopt where one of the two cannot be read. `floor`: smaller magnitudes of the reference do not
// count as flushed.
std::optional<ReferenceError> Compare(const at::Tensor& held, const at::Tensor& reference,
                                      double floor = 0);

// Relative, in the L2 norm, over what is finite in both; infinite where the reference is 0 and the
// held value is not.
double ErrorOf(const ReferenceError& found);

// Whether the reference is 0 but for its own rounding, as a sum whose terms cancel exactly: the
// held error is about half an ulp of the terms, so the terms follow from it, and with them what
// FP64 makes of an exact 0.
bool IsNoise(const ReferenceError& found, c10::ScalarType type);

// The rounding of a reference, beside the terms of a sum.
inline constexpr double kRoundingOfReferences = 256 * 0x1p-53;

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_DIFF_COMPARISON_H_
