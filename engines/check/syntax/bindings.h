// Who assigns what in a file: assignments by variable, functions and classes, parameters, and
// constants that follow.
//
// Borrows Syntax and Names; immutable after construction.
#ifndef MPNANNY_ENGINES_CHECK_SYNTAX_BINDINGS_H_
#define MPNANNY_ENGINES_CHECK_SYNTAX_BINDINGS_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engines/check/syntax/names.h"
#include "engines/check/syntax/syntax.h"

namespace mpnanny::check {

struct Assignment {
  NodeId target = kNoNode;
  NodeId value =
      kNoNode;  // kNoNode: bound by something that is no plain assignment (loop, with, augmented)
  NodeId function = 0;  // the function (or 0, the module) in which it stands
};

struct Function {
  NodeId node = 0;  // a kFunction, or 0 for the module's own code
  NodeId body = 0;
  NodeId klass = kNoNode;               // the class whose method it is
  std::string name;                     // "" for the module
  std::vector<std::string> parameters;  // without "self" / "cls"
};

class Bindings {
 public:
  Bindings(const Syntax& syntax, const Names& names);

  // The module first, then every function in order of its text.
  const std::vector<Function>& functions() const { return functions_; }
  // The function of this file that the call means: a module-level or sibling function by name, or a
  // method of the same class through `self`. Null if it is none.
  const Function* Callee(NodeId call) const;
  // The function of that name in the class (kNoNode: in the module's own code, or inside another
  // function); null if there is none, or several.
  const Function* FunctionNamed(NodeId klass, std::string_view name) const;
  // The function whose node it is (0: the module); null for any other node.
  const Function* FunctionAt(NodeId function) const;
  // The class of that name, or kNoNode.
  NodeId ClassNamed(std::string_view name) const;
  // The expressions from which the class is derived.
  std::vector<NodeId> Bases(NodeId klass) const;
  // True if the class, or a base class of it in this file, derives from torch.nn.Module (or a name
  // ending in "Module").
  bool IsModuleClass(NodeId klass) const { return module_classes_.contains(klass); }

  // Assignments of the variable that `expression` names, as seen from there: its own function's,
  // else the module's; for `self.x` those of the class.
  std::vector<Assignment> AssignmentsOf(NodeId expression) const;
  const std::map<std::string, std::vector<Assignment>, std::less<>>& all() const { return by_key_; }
  // The value of the only assignment, looking through names at most `depth` times; the expression
  // itself if it is no name; kNoNode if that is not one definite value.
  NodeId ValueOf(NodeId expression, int depth = 4) const;
  // A number that is known from the text: literals, arithmetic on them, float("…"), names bound to
  // one (also by a parameter's default).
  std::optional<double> Number(NodeId expression, int depth = 6) const;

  // The default of a parameter, kNoNode if it has none.
  NodeId ParameterDefault(NodeId function, std::string_view name) const;

  const Syntax& syntax() const { return syntax_; }
  const Names& names() const { return names_; }

 private:
  void Bind(NodeId target, NodeId value);
  bool DerivesFromModule(NodeId klass) const;

  const Syntax& syntax_;
  const Names& names_;
  std::vector<Function> functions_;
  std::map<std::string, std::vector<size_t>, std::less<>> functions_by_name_;
  std::map<std::string, std::vector<Assignment>, std::less<>> by_key_;
  std::map<std::string, NodeId, std::less<>> classes_;
  std::set<NodeId> module_classes_;
};

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_SYNTAX_BINDINGS_H_
