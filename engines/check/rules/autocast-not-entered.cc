#include <string>

#include "engines/check/rule_support.h"

namespace mpnanny::check::autocast_not_entered {

// True if the function (or the module, 0) that holds `node` mentions the name after it.
static bool UsedLater(const FileFacts& facts, NodeId node, std::string_view name) {
  const NodeId function = facts.syntax.FunctionOf(node);
  const NodeId end = facts.syntax[function].after;
  for (NodeId id = facts.syntax[node].after; id < end; ++id) {
    if (facts.syntax[id].kind == Kind::kIdentifier && facts.syntax.Text(id) == name) return true;
  }
  return false;
}

// True if the function says that the name is another scope's: `global name`, `nonlocal name`.
static bool IsOuter(const FileFacts& facts, NodeId node, std::string_view name) {
  const NodeId function = facts.syntax.FunctionOf(node);
  for (NodeId id = function; id < facts.syntax[function].after; ++id) {
    if (facts.syntax[id].kind != Kind::kGlobal) continue;
    for (const NodeId one : facts.syntax.Children(id)) {
      if (facts.syntax.Text(one) == name) return true;
    }
  }
  return false;
}

void Check(const FileFacts& facts, Sink& sink) {
  for (const Call* call : facts.names.CallsNamed("autocast")) {
    if (!IsAutocast(call->callee)) continue;
    const NodeId parent = facts.syntax[call->node].parent;
    if (facts.syntax.Is(parent, Kind::kExpressionStatement)) {
      // The last line of a notebook's cell or of a stub shows a value.
      sink.Add(call->node);
    } else if (facts.syntax.Is(parent, Kind::kAssignment)) {
      const NodeId left = facts.syntax.Child(parent, PythonFields().left);
      if (!facts.syntax.Is(left, Kind::kIdentifier) || facts.syntax.FunctionOf(left) == 0) continue;
      // What is assigned in a loop may be used at its top.
      if (facts.syntax.Enclosing(parent, Kind::kFor) != kNoNode ||
          facts.syntax.Enclosing(parent, Kind::kWhile) != kNoNode)
        continue;
      const std::string_view name = facts.syntax.Text(left);
      // Entered by another function, if at all.
      if (IsOuter(facts, parent, name)) continue;
      if (!UsedLater(facts, parent, name))
        sink.Add(call->node, "The autocast in " + std::string(name) +
                                 " is never entered: nothing runs under it.")
            .form = "variable";
    }
  }
}

}  // namespace mpnanny::check::autocast_not_entered
