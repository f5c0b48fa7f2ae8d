// Inputs that a model hands to its weights as the caller gave them: nothing ties the two types.
//
// Free function without state; it borrows the FileFacts.
#ifndef MPNANNY_TOOLS_STATIC_CHECK_MIXED_TYPES_UNTIED_INPUTS_H_
#define MPNANNY_TOOLS_STATIC_CHECK_MIXED_TYPES_UNTIED_INPUTS_H_

#include <vector>

#include "tools/static_check/facts/facts.h"
#include "tools/static_check/mixed_types/unlike_types.h"

namespace mpnanny::static_check {

// x @ self.W, self.time_mlp(timestep_embedding(t)), self.proj(pixel_values), self.lora_a(x),
// flash_attn_func(q, k, v), Kernel.apply(x, self.weight), a dtype that is 16-bit by default.
std::vector<UnlikeWrite> FindUntiedInputs(const FileFacts& facts);

}  // namespace mpnanny::static_check

#endif  // MPNANNY_TOOLS_STATIC_CHECK_MIXED_TYPES_UNTIED_INPUTS_H_
