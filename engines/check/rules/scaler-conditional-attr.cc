#include <string>

#include "engines/check/rule_support.h"

namespace mpnanny::check::scaler_conditional_attr {
namespace {

// The `if` without else that the scaler is made in, where nothing else gives that name a value;
// kNoNode otherwise.
NodeId OnlyIf(const FileFacts& facts, const ScalerMade& made) {
  const Syntax& syntax = facts.syntax;
  const NodeId statement = syntax.StatementOf(made.call);
  if (made.key.empty() || !syntax.Is(syntax[statement].parent, Kind::kBlock)) return kNoNode;
  const NodeId branch = syntax[syntax[statement].parent].parent;
  if (!syntax.Is(branch, Kind::kIf) || branch < syntax.FunctionOf(made.call)) return kNoNode;
  const NodeId assignment =
      syntax.Is(statement, Kind::kExpressionStatement) ? syntax[statement].first_child : statement;
  const NodeId target = syntax.Child(assignment, PythonFields().left);
  if (target == kNoNode || facts.bindings.AssignmentsOf(target).size() != 1) return kNoNode;
  // A class attribute or a property may stand in for it.
  return branch;
}

// True if something in the function decides whether the node is reached.
bool IsGuarded(const FileFacts& facts, NodeId node) {
  const Syntax& syntax = facts.syntax;
  const NodeId function = syntax.FunctionOf(node);
  for (NodeId up = syntax[node].parent; up > function; up = syntax[up].parent) {
    const Kind kind = syntax[up].kind;
    if (kind == Kind::kIf || kind == Kind::kConditional || kind == Kind::kBoolean ||
        kind == Kind::kTry || kind == Kind::kElif)
      return true;
  }
  // `if not self.amp: return` above.
  for (NodeId id = function; id < node; ++id) {
    const Kind kind = syntax[id].kind;
    if ((kind == Kind::kReturn || kind == Kind::kRaise || kind == Kind::kContinue) &&
        syntax.FunctionOf(id) == function)
      return true;
  }
  return false;
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  for (const ScalerMade& made : facts.scalers.made()) {
    const NodeId branch = OnlyIf(facts, made);
    if (branch == kNoNode) continue;
    const NodeId klass = facts.syntax.Enclosing(made.call, Kind::kClass);
    const bool attribute = made.key.starts_with("self.");
    for (const ScalerCall& call : facts.scalers.calls()) {
      if (call.scaler != made.key || IsInside(facts, call.call, branch) ||
          (attribute ? facts.syntax.Enclosing(call.call, Kind::kClass) != klass
                     : facts.syntax.FunctionOf(call.call) != facts.syntax.FunctionOf(made.call)) ||
          IsGuarded(facts, call.call))
        continue;
      sink.Add(
          call.call,
          made.key + " exists only where " +
              std::string(facts.syntax.Text(facts.syntax.Child(branch, PythonFields().condition))) +
              " holds, and is used here whether it does or not.");
      break;
    }
  }
}

}  // namespace mpnanny::check::scaler_conditional_attr
