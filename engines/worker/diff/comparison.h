// Values of a run beside their references.
//
// A free function without state.
#ifndef MPNANNY_ENGINES_WORKER_DIFF_COMPARISON_H_
#define MPNANNY_ENGINES_WORKER_DIFF_COMPARISON_H_

#include <ATen/core/TensorBody.h>

#include <optional>

#include "numerics/reference_error.h"

namespace mpnanny::worker {

// Nullopt where one of the two cannot be read, or there is nothing to read.
std::optional<ReferenceError> Compare(const at::Tensor& held, const at::Tensor& reference);

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_DIFF_COMPARISON_H_
