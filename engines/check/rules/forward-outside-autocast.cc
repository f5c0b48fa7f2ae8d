#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "engines/check/facts/model_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::forward_outside_autocast {

// True if a forward() of the file brings its own autocast, as a decorator or inside.
static bool ModelCasts(const FileFacts& facts) {
  for (const Autocast& autocast : facts.regions.all()) {
    const NodeId function = facts.syntax.Is(autocast.owner, Kind::kFunction)
                                ? autocast.owner
                                : facts.syntax.FunctionOf(autocast.owner);
    if (function != 0 &&
        facts.syntax.Text(facts.syntax.Child(function, PythonFields().name)).starts_with("forward"))
      return true;
  }
  return false;
}

// True if `name` names a loss: criterion, loss_fn, cross_entropy.
static bool IsLoss(std::string_view name) {
  return name.starts_with("crit") || name.find("criterion") != std::string_view::npos ||
         name.find("loss") != std::string_view::npos || name == "cross_entropy";
}

// The loss of a region that computes nothing else; kNoNode if something in it might be a forward
// pass.
static NodeId OnlyLoss(const FileFacts& facts, NodeId body) {
  NodeId loss = kNoNode;
  const Node& node = facts.syntax[body];
  for (NodeId id = body; id < node.after; ++id) {
    const Call* call = facts.names.CallAt(id);
    if (call == nullptr) continue;
    if (IsLoss(call->name)) {
      if (loss == kNoNode) loss = id;
      continue;
    }
    // Only what cannot be a model may stand beside it.
    const bool plain = !call->callee.empty() || call->name == "len" || call->name == "float" ||
                       call->name == "mean" || call->name == "sum" || call->name == "to" ||
                       call->name == "view" || call->name == "squeeze" ||
                       call->name == "unsqueeze" || call->name == "reshape" ||
                       call->name == "long" || call->name == "size" || call->name == "flatten" ||
                       call->name == "item" || call->name == "detach" || call->name == "backward" ||
                       call->name == "scale" || call->name == "cuda";
    if (!plain) return kNoNode;
  }
  return loss;
}

void Check(const FileFacts& facts, Sink& sink) {
  const Fields& f = PythonFields();
  if (facts.regions.all().empty() || ModelCasts(facts)) return;
  const std::vector<ModelCall> models = FindModelCalls(facts);
  if (models.empty()) return;
  for (const Autocast& autocast : facts.regions.all()) {
    if (autocast.enabled == Tri::kNo || autocast.foreign ||
        !facts.syntax.Is(autocast.owner, Kind::kWith) || facts.regions.NoGradAt(autocast.owner))
      continue;
    const NodeId body = facts.syntax.Child(autocast.owner, f.body);
    const NodeId loss = OnlyLoss(facts, body);
    if (loss == kNoNode) continue;
    for (const NodeId argument : facts.names.Arguments(loss)) {
      if (!facts.syntax.Is(argument, Kind::kIdentifier)) continue;
      // The last assignment above, in the same function, must be the model's call.
      NodeId value = kNoNode;
      for (const Assignment& assignment : facts.bindings.AssignmentsOf(argument)) {
        if (assignment.target < autocast.owner &&
            assignment.function == facts.syntax.FunctionOf(autocast.owner))
          value = assignment.value;
      }
      Policy policy;  // of a region that a caller opened
      if (value != kNoNode && facts.dtypes->PolicyAt(value, &policy) && !policy.assumed) continue;
      const bool model = std::any_of(models.begin(), models.end(), [&](const ModelCall& call) {
        return call.node == value && facts.regions.At(value) == nullptr &&
               !facts.regions.NoGradAt(value);
      });
      if (!model || value > autocast.owner) continue;
      sink.Add(value, "The model runs outside of autocast, in FP32; only the loss (" +
                          std::string(facts.names.CallAt(loss)->name) + ") is inside.");
      break;
    }
  }
}

}  // namespace mpnanny::check::forward_outside_autocast
