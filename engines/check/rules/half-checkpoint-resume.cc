#include <set>

#include "engines/check/rule_support.h"

namespace mpnanny::check::half_checkpoint_resume {
namespace {

// A model.half() inside the expression, kNoNode if there is none.
NodeId HalfIn(const FileFacts& facts, NodeId expression) {
  if (expression == kNoNode) return kNoNode;
  for (NodeId id = expression; id < facts.syntax[expression].after; ++id) {
    if (facts.names.Method(id) == "half" && facts.names.Argument(id, 0, "") == kNoNode) return id;
  }
  return kNoNode;
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  std::set<NodeId> reported;
  for (const struct Call* call : facts.names.CallsNamed("save")) {
    if (call->callee != "torch.save") continue;
    const NodeId dict = SavedTraining(facts, call->node);
    if (dict == kNoNode || !reported.insert(dict).second) continue;
    for (const NodeId pair : facts.syntax.Children(dict)) {
      const NodeId half = HalfIn(facts, facts.syntax.Child(pair, PythonFields().value));
      if (half != kNoNode) sink.Add(half);
    }
  }
}

}  // namespace mpnanny::check::half_checkpoint_resume
