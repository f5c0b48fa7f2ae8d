#include <string>
#include <string_view>

#include "engines/check/rule_support.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check::scaled_loss_read {
namespace {

// What may be done with a scaled loss: going backward, being divided by the scale again, being
// handed to something that goes backward.
bool IsProperUse(const FileFacts& facts, NodeId use) {
  const Syntax& syntax = facts.syntax;
  const NodeId parent = syntax[use].parent;
  if (syntax.Is(parent, Kind::kAttribute)) {
    const std::string_view method = syntax.Text(syntax.Child(parent, PythonFields().attribute));
    return method == "backward" || method == "requires_grad" || method == "grad_fn" ||
           method == "device" || method == "shape" || method == "dtype";
  }
  for (NodeId up = parent; up != kNoNode; up = syntax[up].parent) {
    const Kind kind = syntax.kind(up);
    if (kind == Kind::kCall) {
      const Call* call = facts.names.CallAt(up);
      return call != nullptr &&
             HoldsAny(call->name, {"backward", "grad", "scale", "isfinite", "isnan", "isinf", "all",
                                   "any", "append", "del"});
    }
    if (kind == Kind::kBinary)
      return HoldsAny(syntax.Text(up), {"scale"});  // divided again, or multiplied
    if (kind == Kind::kExpressionStatement || kind == Kind::kAssignment || kind == Kind::kBlock ||
        kind == Kind::kDelete)
      return true;
    if (kind == Kind::kReturn || kind == Kind::kAugmentedAssignment) return false;
    if (kind == Kind::kIf || kind == Kind::kComparison || kind == Kind::kNot) return true;
  }
  return true;
}

// True if the name gets another value between the two places.
bool IsRenewed(const FileFacts& facts, NodeId target, NodeId use) {
  for (const Assignment& assignment : facts.bindings.AssignmentsOf(target)) {
    if (assignment.target > target && assignment.target <= use) return true;
  }
  return false;
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  const Syntax& syntax = facts.syntax;
  for (const ScalerCall& scale : facts.scalers.calls()) {
    if (scale.op != ScalerCall::Op::kScale) continue;
    const NodeId assignment = syntax[scale.call].parent;
    if (!syntax.Is(assignment, Kind::kAssignment)) continue;
    const NodeId target = syntax.Child(assignment, PythonFields().left);
    const NodeId function = syntax.FunctionOf(scale.call);
    // A function that scales for others gives back what it is asked for.
    if (!syntax.Is(target, Kind::kIdentifier) || function == 0) continue;
    const std::string_view name = syntax.Text(target);
    bool backward = false;
    for (const Call* call : facts.names.CallsNamed("backward")) {
      backward = backward || (IsInside(facts, call->node, function) && call->node > assignment);
    }
    if (!backward) continue;
    for (NodeId id = syntax[assignment].after; id < syntax[function].after; ++id) {
      if (!syntax.Is(id, Kind::kIdentifier) || syntax.Text(id) != name ||
          syntax[id].field == PythonFields().attribute ||
          syntax.Is(syntax[id].parent, Kind::kKeywordArgument))
        continue;
      if (IsProperUse(facts, id)) continue;
      if (IsRenewed(facts, target, id)) break;
      sink.Add(id, std::string(name) +
                       " is the scaled loss here, 65536 times what the loss is at the start.");
      break;
    }
  }
}

}  // namespace mpnanny::check::scaled_loss_read
