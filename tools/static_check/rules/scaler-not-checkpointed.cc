#include "tools/static_check/rule_support.h"

namespace mpnanny::static_check::scaler_not_checkpointed {

// True if the expression is a dict that holds an optimizer's state.
static bool HoldsOptimizerState(const FileFacts& facts, NodeId expression) {
  const NodeId dict = facts.bindings.ValueOf(expression);
  if (!facts.syntax.Is(dict, Kind::kDictionary)) return false;
  for (const NodeId pair : facts.syntax.Children(dict)) {
    const NodeId value = facts.syntax.Child(pair, PythonFields().value);
    if (facts.names.Method(value) == "state_dict" &&
        facts.scalers.IsOptimizer(facts.names.Key(facts.names.Receiver(value)))) {
      return true;
    }
  }
  return false;
}

void Check(const FileFacts& facts, Sink& sink) {
  if (facts.project.scaler_state || !facts.scalers.Has(ScalerCall::Op::kStep)) return;
  for (const ScalerMade& made : facts.scalers.made()) {
    // enabled=(dtype == "float16"): whether it is ever on is not known.
    const NodeId enabled = facts.syntax.Unwrap(facts.names.Argument(made.call, -1, "enabled"));
    if (made.enabled_false || facts.syntax.Is(enabled, Kind::kComparison)) return;
  }
  ForEachCall(facts, [&](NodeId call) {
    if (facts.names.Callee(call) == "torch.save" &&
        HoldsOptimizerState(facts, facts.names.Argument(call, 0, "obj"))) {
      sink.Add(call);
    }
  });
}

}  // namespace mpnanny::static_check::scaler_not_checkpointed
