// Operators that have no kernel for FP16 or BF16, or none on every device, and get what may be
// 16-bit.
//
// Free function without state; it borrows the FileFacts.
#ifndef MPNANNY_TOOLS_STATIC_CHECK_MIXED_TYPES_NO_HALF_KERNEL_H_
#define MPNANNY_TOOLS_STATIC_CHECK_MIXED_TYPES_NO_HALF_KERNEL_H_

#include <vector>

#include "tools/static_check/facts/facts.h"
#include "tools/static_check/mixed_types/unlike_types.h"

namespace mpnanny::static_check {

// x.numpy(), torch.linalg.inv(x), torch.fft.rfft(x), F.interpolate(x, mode="bicubic"),
// torch.sparse.mm(a, x) and so on.
std::vector<UnlikeWrite> FindMissingKernels(const FileFacts& facts);

}  // namespace mpnanny::static_check

#endif  // MPNANNY_TOOLS_STATIC_CHECK_MIXED_TYPES_NO_HALF_KERNEL_H_
