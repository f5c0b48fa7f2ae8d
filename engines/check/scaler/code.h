// The files of a project as ScalerMachine reads them: which functions matter, what a call
// runs, and what the names inside a function stand for.
//
// Internal to this folder. Borrows the analyses of the files, which must be linked; immutable
// after construction, then safe from any thread.
#ifndef MPNANNY_ENGINES_CHECK_SCALER_CODE_H_
#define MPNANNY_ENGINES_CHECK_SCALER_CODE_H_

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engines/check/facts/modules.h"
#include "engines/check/facts/scalers.h"
#include "engines/check/syntax/bindings.h"

namespace mpnanny::check {

class Code;
class Codebase;

// What a call runs, where the text says it.
struct Target {
  const Code* code = nullptr;          // the file in which it stands
  const Function* function = nullptr;  // null if it is a lambda
  NodeId lambda = kNoNode;
  // What `self` is inside, in the words of the call: "self", "self.scaler_wrapper"; "" for none.
  std::string self;
  // The functools.partial(…) that has fixed arguments, kNoNode for none.
  NodeId partial = kNoNode;
};

// True if a function or method with such a name may clear gradients.
bool SoundsLikeClearing(std::string_view name, bool is_method);

class Code {
 public:
  Code(const Codebase& all, size_t number, const Bindings& bindings, const Scalers& scalers);

  const Bindings& bindings() const { return bindings_; }
  const Syntax& syntax() const { return syntax_; }
  const Names& names() const { return names_; }
  const Scalers& scalers() const { return scalers_; }
  size_t number() const { return number_; }
  const Codebase& all() const { return all_; }

  // True if the function, or one that it calls however deep, does what the order knows.
  bool Reaches(NodeId function) const { return reaches_.contains(function); }
  // The same for calls on a scaler.
  bool ReachesScaler(NodeId function) const { return scales_.contains(function); }
  bool HasWork() const { return !scales_.empty() || !scalers_.made().empty(); }
  std::optional<Target> TargetOf(NodeId call) const;
  // For a name that is local to the function: the variable that it is another name of ("" if it is
  // one of its own). Null if it is not local.
  const std::string* Local(NodeId function, std::string_view name) const;
  // True if `name` is a parameter of the function and is never given another value there.
  bool IsFixedParameter(const Function& function, std::string_view name) const;
  // The calls on scalers that stand in the function itself.
  std::vector<const ScalerCall*> CallsIn(NodeId function) const;
  // True if the node stands in a loop of its function.
  bool IsInLoop(NodeId node) const;
  // What a call calls, as it is written.
  std::string_view FunctionText(NodeId call) const {
    return syntax_.Text(syntax_.Child(call, PythonFields().function));
  }
  // True for super().
  bool IsSuper(NodeId expression) const {
    return syntax_.Is(expression, Kind::kCall) && FunctionText(expression) == "super";
  }
  // True if a scale() of the file stands in the same `if` as the node, in whatever branch.
  bool IsBesideScale(NodeId node) const;
  // True if a step of the scaler stands in the other branch of an `if` around the node, which does
  // not ask whether mixed precision is on in words that are understood.
  bool IsOtherStep(NodeId node) const;
  // True if a variable of that name is given a scaled value somewhere in the function.
  bool IsScaledSomewhere(NodeId function, std::string_view name) const;
  // True if the function scales and steps in a loop of its own: it is a training by itself.
  bool HasTrainingLoop(NodeId function) const;
  // True if nothing in the branches of this `if` matters to the order: no call that it knows or
  // that may reach what it follows, and no way out. Assignments may be there.
  bool IsInert(NodeId branch) const;
  // The zero_grad() calls that stand in the node.
  std::vector<NodeId> ClearsIn(NodeId node) const;
  // True if an operation of that kind stands in the node.
  bool Holds(NodeId node, ScalerCall::Op op) const;
  // True if the function gives gradients back their size by hand: it computes with get_scale().
  bool ComputesWithScale(NodeId function) const;

 private:
  friend class Codebase;
  bool MayMatter(const Call& call) const;
  // What stands in this file alone.
  void FindOwn();
  // What needs to be known of the others: call after all have found their own and spread it.
  void Complete();
  std::optional<Target> TargetOfValue(NodeId callable, int depth) const;
  std::optional<Target> MethodOfBase(NodeId klass, std::string_view name) const;

  const Codebase& all_;
  const size_t number_;
  const Bindings& bindings_;
  const Syntax& syntax_;
  const Names& names_;
  const Scalers& scalers_;
  std::map<NodeId, std::map<std::string, std::string, std::less<>>> locals_;
  std::set<NodeId> reaches_;
  std::set<NodeId> scales_;
  std::vector<NodeId> active_;  // nodes that matter, in order
};

class Codebase {
 public:
  struct File {
    const Bindings* bindings = nullptr;
    const Scalers* scalers = nullptr;
  };
  // The files in the order of their numbers in `modules`.
  Codebase(const Modules& modules, const std::vector<File>& files, unsigned threads);
  const Code& operator[](size_t number) const { return *codes_[number]; }
  const Modules& modules() const { return modules_; }

 private:
  // Callers of what reaches reach it too.
  void Spread(std::set<NodeId> Code::*set);
  const Modules& modules_;
  std::vector<std::unique_ptr<Code>> codes_;
};

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_SCALER_CODE_H_
