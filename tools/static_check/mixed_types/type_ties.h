// What ties the types of tensors to one another in the text: casts, factories that take a type, and
// the names behind views.
//
// Free functions without state; they borrow the FileFacts.
#ifndef MPNANNY_TOOLS_STATIC_CHECK_MIXED_TYPES_TYPE_TIES_H_
#define MPNANNY_TOOLS_STATIC_CHECK_MIXED_TYPES_TYPE_TIES_H_

#include <string_view>
#include <vector>

#include "tools/static_check/facts/facts.h"

namespace mpnanny::static_check {

// The values that a name is given, or the expression itself.
std::vector<NodeId> ValuesOf(const FileFacts& facts, NodeId expression);
// True for y.to(x): not of a device alone.
bool TakesTypeOf(std::string_view text);
// True if its type is tied to another tensor's, or chosen: y.to(x.dtype), y.type_as(x).
bool IsTied(const FileFacts& facts, NodeId expression);
// True if it is made FP32 by a cast, or by a factory that takes no type from anywhere.
bool IsMadeFp32(const FileFacts& facts, NodeId expression);
bool MayRunHalf(const FileFacts& facts, NodeId node);
// The root of an expression behind views: w of w[a:b].t().
NodeId RootOf(const FileFacts& facts, NodeId expression);
// The variable below subscripts and views.
std::string_view NameOf(const FileFacts& facts, NodeId expression);

// True if the text makes a value of another type than FP32, or of another tensor's: y.to(x.dtype),
// mask.bool(), torch.zeros_like(x).
bool CastsAway(std::string_view text);
// True if the statement that holds `node`, or one of its function that goes on with what it makes,
// casts away: m of `m = zeros(…)`, `m = m - 1`, `m = m.to(x)`.
bool IsTiedLater(const FileFacts& facts, NodeId node);
// True where code of a model may run in 16 bits: a method of one of its classes, or a function that
// is called as such and is no setup.
bool IsModelCode(const FileFacts& facts, NodeId node);

}  // namespace mpnanny::static_check

#endif  // MPNANNY_TOOLS_STATIC_CHECK_MIXED_TYPES_TYPE_TIES_H_
