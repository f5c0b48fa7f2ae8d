// Which values are 16-bit: a small lattice, carried forward through the assignments of each
// function.
//
// What is known: `.half()`, `.to(torch.float16)`, `.float()`, dtype= arguments, and under an
// autocast region what the device's operator table makes of matmul, softmax and so on. Branches are
// joined, loops are run twice. Anything else is unknown, and unknown wins: a rule that asks for
// FP16 gets it only where the text proves it. In methods of a torch.nn.Module the region often
// stands elsewhere; where all autocast of the project is FP16 on CUDA it is assumed there, and
// values that rest on this carry `assumed`. Borrows Bindings, Regions and OpTable; immutable after
// construction.
#ifndef MPNANNY_TOOLS_STATIC_CHECK_DTYPES_H_
#define MPNANNY_TOOLS_STATIC_CHECK_DTYPES_H_

#include <vector>

#include "base/cancel.h"
#include "tools/static_check/bindings.h"
#include "tools/static_check/op_table.h"
#include "tools/static_check/regions.h"

namespace mpnanny::static_check {

enum class Type : uint8_t {
  kUnseen,   // not evaluated yet (the lattice's bottom)
  kUnknown,  // could be anything (its top)
  kNumber,   // a Python number: takes the tensor's dtype
  kIndex,    // an integer or boolean tensor
  kFp32,     // FP32 or wider
  kFp16,
  kBf16,
  kHalf,  // one of the two
};

struct Value {
  Type type = Type::kUnseen;
  bool assumed = false;     // rests on an autocast region that stands in another function
  NodeId origin = kNoNode;  // the expression that made it 16-bit
  bool is_fp16() const { return type == Type::kFp16; }
  bool is_16bit() const {
    return type == Type::kFp16 || type == Type::kBf16 || type == Type::kHalf;
  }
};

class Dtypes {
 public:
  // `assume_fp16`: the project's autocast is FP16 on CUDA throughout.
  Dtypes(const Bindings& bindings, const Regions& regions, const OpTable& ops, bool assume_fp16,
         const CancelToken& cancel);

  // The value of an expression, joined over all visits; kUnseen if it is none that is evaluated.
  Value Of(NodeId expression) const;
  // The autocast that applies at `node`, explicit or assumed; device and dtype as far as known.
  // False: none or off.
  struct Policy {
    Device device = Device::kUnknown;
    Type half = Type::kHalf;
    bool assumed = false;
  };
  bool PolicyAt(NodeId node, Policy* policy) const;

 private:
  friend class DtypeFlow;
  const Bindings& bindings_;
  const Regions& regions_;
  const OpTable& ops_;
  const bool assume_fp16_;
  std::vector<Value> values_;  // by node
};

}  // namespace mpnanny::static_check

#endif  // MPNANNY_TOOLS_STATIC_CHECK_DTYPES_H_
