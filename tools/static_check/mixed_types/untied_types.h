// Tensors that are written into one another or multiplied although nothing in the text ties their
// types: what dtype-mismatch tells as its broadest guesses.
//
// Free function without state; it borrows the FileFacts.
#ifndef MPNANNY_TOOLS_STATIC_CHECK_MIXED_TYPES_UNTIED_TYPES_H_
#define MPNANNY_TOOLS_STATIC_CHECK_MIXED_TYPES_UNTIED_TYPES_H_

#include <vector>

#include "tools/static_check/facts/facts.h"
#include "tools/static_check/mixed_types/unlike_types.h"

namespace mpnanny::static_check {

// out.scatter_add_(0, i, y), out[mask] = f(x), t.float() @ w, softmax(scores + mask) @ v, attention
// of what a norm returned, self.proj(x.float()): one per node and reason, in no order.
std::vector<UnlikeWrite> FindUntiedTypes(const FileFacts& facts);

}  // namespace mpnanny::static_check

#endif  // MPNANNY_TOOLS_STATIC_CHECK_MIXED_TYPES_UNTIED_TYPES_H_
