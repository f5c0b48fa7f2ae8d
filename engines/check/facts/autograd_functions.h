// The classes of a file that derive from torch.autograd.Function, with their forward and backward.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_CHECK_FACTS_AUTOGRAD_FUNCTIONS_H_
#define MPNANNY_ENGINES_CHECK_FACTS_AUTOGRAD_FUNCTIONS_H_

#include <initializer_list>
#include <string_view>
#include <vector>

#include "engines/check/facts/facts.h"

namespace mpnanny::check {

struct AutogradFunction {
  NodeId klass = kNoNode;
  NodeId forward = kNoNode;   // the function's node
  NodeId backward = kNoNode;  // the function's node
  bool custom_fwd = false;    // forward is decorated with custom_fwd
  bool custom_bwd = false;    // backward is decorated with custom_bwd
};

// Those that define both forward and backward.
std::vector<AutogradFunction> FindAutogradFunctions(const FileFacts& facts);

// True for a call or operator that autocast runs in 16 bits: matmul, einsum, linear, convolutions,
// @.
bool IsCastOperation(const FileFacts& facts, NodeId id);
// The first of those below `root`, or kNoNode.
NodeId FirstCastOperation(const FileFacts& facts, NodeId root);

// True if one of the words is a name in the code below `root`.
bool NamesAny(const FileFacts& facts, NodeId root, std::initializer_list<std::string_view> words);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_FACTS_AUTOGRAD_FUNCTIONS_H_
