// What the text shows of an expression's dtype, for a reader: known with the place that decides it,
// or unknown with the place where the trail ends.
//
// Looks backwards from an expression through assignments, casts, factories and torch's type
// promotion; names are followed, never read. What Dtypes proves forwards is taken from there. A
// ValueTypes belongs to one file and one thread, borrows its FileFacts and remembers what it found.
#ifndef MPNANNY_ENGINES_CHECK_CANDIDATES_VALUE_TYPES_H_
#define MPNANNY_ENGINES_CHECK_CANDIDATES_VALUE_TYPES_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>

#include "engines/check/facts/facts.h"
#include "engines/check/facts/torch_calls.h"

namespace mpnanny::check {

enum class Shown : uint8_t {
  kNumber,   // a Python number or a tensor of no dimension: takes the other operand's dtype
  kIndex,    // an integer or boolean tensor
  kHalf,     // 16-bit
  kUnknown,  // the text does not say
  kWeight,   // a parameter or buffer of a module: FP32 until the module is cast
  kFp32,     // FP32 or wider
};

struct ShownType {
  Shown type = Shown::kUnknown;
  NodeId because = kNoNode;  // what makes it so; of kUnknown, where the trail ends
};

class ValueTypes {
 public:
  // `may_be_cast`: weights may be cast as a whole. Where they are not, 16 bits come from autocast
  // alone, and what autocast runs in FP32 is FP32.
  ValueTypes(const FileFacts& facts, bool may_be_cast)
      : facts_(facts), syntax_(facts.syntax), may_be_cast_(may_be_cast) {}

  ShownType Of(NodeId expression);

 private:
  ShownType Evaluate(NodeId id, int depth);
  ShownType At(NodeId expression, int depth);
  ShownType OfName(NodeId id, int depth);
  ShownType OfAssignment(const Assignment& assignment, int depth);
  ShownType OfUnpacked(NodeId target, int depth);
  ShownType OfCall(NodeId id, int depth);
  ShownType OfTorchCall(const TorchCall& call, int depth);
  // What an expression names as a dtype: torch.float32, x.dtype; of other things nothing is known.
  ShownType NamedType(NodeId expression, int depth);
  // True if the name is given what torch computes, so that x.to(name) takes its dtype.
  bool IsTensor(NodeId name);
  ShownType Promoted(std::span<const NodeId> operands, NodeId node, int depth);

  const FileFacts& facts_;
  const Syntax& syntax_;
  const bool may_be_cast_;
  // True for an operator of autocast's FP32 list, where nothing but autocast lowers precision.
  bool IsFp32ByAutocast(NodeId node, std::string_view function) const;
  std::unordered_map<NodeId, ShownType> known_;
  int steps_ = 0;  // that one question may still take
};

// True if the call is given an FP32 or FP64 dtype=.
bool IsGivenFp32(const FileFacts& facts, NodeId call);
// True for a call that makes a value 16-bit by a cast or a dtype, whether autocast is on or not.
bool IsByCast(const FileFacts& facts, NodeId call);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_CANDIDATES_VALUE_TYPES_H_
