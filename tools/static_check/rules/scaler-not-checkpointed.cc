#include <set>

#include "tools/static_check/rule_support.h"

namespace mpnanny::static_check::scaler_not_checkpointed {

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
    const NodeId dict = SavedTraining(facts, call);
    if (dict != kNoNode && reported.insert(dict).second) sink.Add(call);
  });
}

}  // namespace mpnanny::static_check::scaler_not_checkpointed
