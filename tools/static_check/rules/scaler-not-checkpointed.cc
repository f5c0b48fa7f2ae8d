#include <set>

#include "tools/static_check/rule_support.h"

namespace mpnanny::static_check::scaler_not_checkpointed {

// The dict with an optimizer's state that the expression stands for at this place, or kNoNode.
static NodeId OptimizerState(const FileFacts& facts, NodeId expression) {
  NodeId dict = facts.syntax.Unwrap(expression);
  // A checkpoint's variable is often used for loading before: what was assigned last is what is
  // saved.
  for (const Assignment& assignment : facts.bindings.AssignmentsOf(expression)) {
    const bool before = assignment.target < expression;
    if (before && assignment.function == facts.syntax.FunctionOf(expression))
      dict = assignment.value;
  }
  if (!facts.syntax.Is(dict, Kind::kDictionary)) return kNoNode;
  for (const NodeId pair : facts.syntax.Children(dict)) {
    const NodeId value = facts.syntax.Child(pair, PythonFields().value);
    if (facts.names.Method(value) == "state_dict" &&
        facts.scalers.IsOptimizer(facts.names.Key(facts.names.Receiver(value)))) {
      return dict;
    }
  }
  return kNoNode;
}

void Check(const FileFacts& facts, Sink& sink) {
  if (facts.project.scaler_state || !facts.scalers.Has(ScalerCall::Op::kStep)) return;
  for (const ScalerMade& made : facts.scalers.made()) {
    // enabled=(dtype == "float16"): whether it is ever on is not known.
    const NodeId enabled = facts.syntax.Unwrap(facts.names.Argument(made.call, -1, "enabled"));
    if (made.enabled_false || facts.syntax.Is(enabled, Kind::kComparison)) return;
  }
  std::set<NodeId> reported;  // one dict may be saved under several names
  ForEachCall(facts, [&](NodeId call) {
    if (facts.names.Callee(call) != "torch.save") return;
    const NodeId dict = OptimizerState(facts, facts.names.Argument(call, 0, "obj"));
    if (dict != kNoNode && reported.insert(dict).second) sink.Add(call);
  });
}

}  // namespace mpnanny::static_check::scaler_not_checkpointed
