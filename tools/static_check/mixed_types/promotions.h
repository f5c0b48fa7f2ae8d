// Where FP32 joins the activations of a model and stays: casts up without a way back, tables and
// buffers that are added to them, masks of another type.
//
// Free function without state; it borrows the FileFacts.
#ifndef MPNANNY_TOOLS_STATIC_CHECK_MIXED_TYPES_PROMOTIONS_H_
#define MPNANNY_TOOLS_STATIC_CHECK_MIXED_TYPES_PROMOTIONS_H_

#include <vector>

#include "tools/static_check/facts/facts.h"
#include "tools/static_check/mixed_types/unlike_types.h"

namespace mpnanny::static_check {

// scores = sigmoid(x.float()) that nothing casts back; x + self.pe[:, :n], torch.cat((x,
// self.token)); attn_mask=mask, Function.apply(x, self.bias), step.lerp_(…) of a 16-bit gradient.
std::vector<UnlikeWrite> FindPromotions(const FileFacts& facts);

}  // namespace mpnanny::static_check

#endif  // MPNANNY_TOOLS_STATIC_CHECK_MIXED_TYPES_PROMOTIONS_H_
