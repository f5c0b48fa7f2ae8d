// Writes of one tensor into another by operators that do not convert, where autocast most likely
// makes their types differ: what dtype-mismatch tells as guesses.
//
// Free functions without state; they borrow the FileFacts.
#ifndef MPNANNY_TOOLS_STATIC_CHECK_MIXED_TYPES_UNLIKE_TYPES_H_
#define MPNANNY_TOOLS_STATIC_CHECK_MIXED_TYPES_UNLIKE_TYPES_H_

#include <string>
#include <vector>

#include "tools/static_check/facts/facts.h"

namespace mpnanny::static_check {

struct UnlikeWrite {
  NodeId node = kNoNode;
  std::string why;
};

// out[mask] = linear(x[mask]); eye.index_put(mask, f(x)), also through a function of the project;
// torch.addmm(…, out=…); torch.cuda.FloatTensor(…) in a custom function.
std::vector<UnlikeWrite> FindUnlikeWrites(const FileFacts& facts);

}  // namespace mpnanny::static_check

#endif  // MPNANNY_TOOLS_STATIC_CHECK_MIXED_TYPES_UNLIKE_TYPES_H_
