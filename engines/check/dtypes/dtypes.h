// Which values are 16-bit: a small lattice, carried forward through the assignments of each
// function, and from callers into the functions that they call.
//
// What is known: `.half()`, `.to(torch.float16)`, `.float()`, dtype= arguments, and under an
// autocast region what the device's operator table makes of matmul, softmax and so on. Branches are
// joined, loops are run twice. Anything else is unknown, and unknown wins: a rule that asks for
// FP16 gets it only where the text proves it. What a function is called with (values, an autocast
// region around the call, a module that was cast) is its Entry; values that rest on it carry
// `passed`. In methods of a torch.nn.Module whose callers are not seen, the region is assumed where
// all autocast of the project is FP16 on CUDA; values that rest on this carry `assumed`. Borrows
// Bindings, Regions and OpTable; built by SpreadDtypes() (dtype_spread.h), then read-only.
#ifndef MPNANNY_ENGINES_CHECK_DTYPES_DTYPES_H_
#define MPNANNY_ENGINES_CHECK_DTYPES_DTYPES_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "engines/check/facts/op_table.h"
#include "engines/check/facts/regions.h"
#include "engines/check/syntax/bindings.h"

namespace mpnanny::check {

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
  NodeId passed = kNoNode;  // the function whose Entry it rests on
  bool operator==(const Value&) const = default;
  // Known from the text of the function alone, whoever calls it.
  bool is_shown() const { return !assumed && passed == kNoNode; }
  bool is_fp16() const { return type == Type::kFp16; }
  bool is_16bit() const {
    return type == Type::kFp16 || type == Type::kBf16 || type == Type::kHalf;
  }
};

// The lattice's join: what a value is that is either of the two.
Value JoinValues(Value a, Value b);

// The autocast that applies at a place; device and dtype as far as known.
struct Policy {
  Device device = Device::kUnknown;
  Type half = Type::kHalf;
  bool assumed = false;
  NodeId passed = kNoNode;  // as in Value
  bool operator==(const Policy&) const = default;
};

// What is known of a function when it is entered, from the calls of it that are seen.
struct Entry {
  std::vector<Value> parameters;   // as in Function::parameters; kUnseen: nothing is known
  std::optional<Policy> autocast;  // a call of it stands under this one
  Type module = Type::kUnknown;    // the layers of its class have been cast to this 16-bit type
  std::string from;                // "train.py:12", one of these calls
  bool operator==(const Entry&) const = default;
};

class Dtypes {
 public:
  // `assume_fp16`: the project's autocast is FP16 on CUDA throughout.
  Dtypes(const Bindings& bindings, const Regions& regions, const OpTable& ops, bool assume_fp16);

  // Evaluates the functions that may hold 16-bit values by themselves; `results` holds what calls
  // of the project's functions return, and may be null.
  using Results = std::map<NodeId, Value>;  // by call
  void RunAll(const CancelToken& cancel);
  // Evaluates one function again with what its callers and callees were found to give.
  void Rerun(const Function& function, Entry entry, const Results& results,
             const CancelToken& cancel);

  // True if nothing was evaluated: no expression has a value.
  bool empty() const { return values_.empty(); }
  // The value of an expression, joined over all visits; kUnseen if it is none that is evaluated.
  Value Of(NodeId expression) const;
  // The autocast that applies at `node`, explicit, passed or assumed. False: none or off.
  bool PolicyAt(NodeId node, Policy* policy) const;
  // Null if nothing is known of its callers.
  const Entry* EntryOf(NodeId function) const;
  // What the function returns; kUnseen if it was not evaluated or returns nothing.
  Value ReturnOf(const Function& function) const;
  // The 16-bit value of self.x in the methods of a class, if all its assignments give one.
  Value AttributeOf(NodeId klass, const std::string& key) const;

 private:
  friend class DtypeFlow;
  const Bindings& bindings_;
  const Regions& regions_;
  const OpTable& ops_;
  const bool assume_fp16_;
  void FindWords();
  bool MayHold16Bit(const Function& function) const;
  void FindAttributes();

  std::vector<uint32_t> words_;  // where a word stands that may make values 16-bit, in order
  std::vector<Value> values_;    // by node; empty until there is one
  std::map<NodeId, Entry> entries_;
  std::map<std::pair<NodeId, std::string>, Value> attributes_;  // by class and key
  const Results* results_ = nullptr;                            // during Rerun()
};

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_DTYPES_DTYPES_H_
