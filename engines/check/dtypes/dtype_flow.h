// The walk behind Dtypes: one function's statements in order, with what is known of its variables.
//
// Internal to dtypes.cc. Lives for one function; writes into the Dtypes that it was made for.
#ifndef MPNANNY_ENGINES_CHECK_DTYPES_DTYPE_FLOW_H_
#define MPNANNY_ENGINES_CHECK_DTYPES_DTYPE_FLOW_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engines/check/dtypes/dtypes.h"

namespace mpnanny::check {

// torch's type promotion over tensors; Python numbers do not count beside a tensor.
Value Promote(const std::vector<Value>& values);

// True for x.max(dim) and the like, whose second result are positions.
bool GivesPositions(std::string_view function);

class DtypeFlow {
 public:
  DtypeFlow(Dtypes& owner, const Function& function, const CancelToken& cancel)
      : d_(owner),
        function_(function),
        syntax_(owner.bindings_.syntax()),
        names_(owner.bindings_.names()),
        cancel_(cancel) {}
  void Run();

 private:
  using Env = std::map<std::string, Value, std::less<>>;
  void Block(NodeId block);
  static void Merge(Env& into, const Env& other);
  void Statement(NodeId id);
  void Generic(NodeId id);
  Value AssignStatement(NodeId id);
  void Assign(NodeId target, NodeId right, Value value);
  Value Record(NodeId id, Value value);
  Value Eval(NodeId id);
  Value EvalNode(NodeId id);
  // The dtype that an expression names: torch.float16, x.dtype.
  Value TypeNamed(NodeId expression);
  Value Call(NodeId id);
  Value Cast(NodeId id, Value self);
  static Value Born(NodeId id, Value value);
  // map(lambda t: rearrange(t, …), (q, k, v)): what the lambda makes of one of them.
  Value Mapped(NodeId call);
  // What self.fc(x) gives where self.fc = nn.Linear(…), a Sequential or one of two; kUnseen if it
  // is no layer that is known.
  Value Layer(NodeId call, const std::vector<Value>& inputs);
  Value Apply(NodeId call, NodeId layer, const std::vector<Value>& inputs, int depth);
  // True if the expression is a Python number, for all that its text says: head_dim ** -0.5.
  bool IsNumber(NodeId expression);
  // The same of a name or an attribute, which stand in a function again and again.
  bool NameIsNumber(NodeId name);
  // `steps`: expressions that may still be looked at; names that are bound often multiply.
  bool IsNumber(NodeId expression, int depth, int& steps);
  Value Attribute(NodeId id);
  Value Op(NodeId id, std::string_view name, const std::vector<Value>& values, NodeId dtype);
  Dtypes& d_;
  const Function& function_;
  const Syntax& syntax_;
  const Names& names_;
  const CancelToken& cancel_;
  static constexpr int kLoopsRunTwice = 4;
  Env env_;
  std::map<std::string_view, bool> number_names_;  // by text: what NameIsNumber() found
  int loops_ = 0;  // how many loops the current statement is inside of
};

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_DTYPES_DTYPE_FLOW_H_
