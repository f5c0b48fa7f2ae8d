// Additive masks that hold the smallest number of a type, which another type does not hold.
//
// Free function without state; it borrows the FileFacts.
#ifndef MPNANNY_TOOLS_STATIC_CHECK_MIXED_TYPES_SMALLEST_MASKS_H_
#define MPNANNY_TOOLS_STATIC_CHECK_MIXED_TYPES_SMALLEST_MASKS_H_

#include <vector>

#include "tools/static_check/facts/facts.h"
#include "tools/static_check/mixed_types/unlike_types.h"

namespace mpnanny::static_check {

// causal + (1.0 - mask) * torch.finfo(dtype).min; the product itself where its type may be FP32.
std::vector<UnlikeWrite> FindSmallestMasks(const FileFacts& facts);

}  // namespace mpnanny::static_check

#endif  // MPNANNY_TOOLS_STATIC_CHECK_MIXED_TYPES_SMALLEST_MASKS_H_
