// Tensors that are made without a type where a model runs: FP32, whatever the model is.
//
// Free function without state; it borrows the FileFacts.
#ifndef MPNANNY_TOOLS_STATIC_CHECK_MIXED_TYPES_UNTYPED_FACTORIES_H_
#define MPNANNY_TOOLS_STATIC_CHECK_MIXED_TYPES_UNTYPED_FACTORIES_H_

#include <vector>

#include "tools/static_check/facts/facts.h"
#include "tools/static_check/mixed_types/unlike_types.h"

namespace mpnanny::static_check {

// torch.zeros(n, m), torch.linspace(…).to(device), torch.Tensor([…]) beside activations and
// nn.Parameter(torch.empty(n)) beside parameters that are given a type; not scalars, indices, masks
// that are only compared, nor what is cast further down.
std::vector<UnlikeWrite> FindUntypedFactories(const FileFacts& facts);

}  // namespace mpnanny::static_check

#endif  // MPNANNY_TOOLS_STATIC_CHECK_MIXED_TYPES_UNTYPED_FACTORIES_H_
