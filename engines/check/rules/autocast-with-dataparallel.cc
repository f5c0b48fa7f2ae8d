#include <set>
#include <string>
#include <vector>

#include "engines/check/facts/model_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::autocast_with_dataparallel {

void Check(const FileFacts& facts, Sink& sink) {
  std::set<std::string> wrapped;  // last parts of the variables that hold a DataParallel
  for (const Call* call : facts.names.CallsNamed("DataParallel")) {
    if (!call->callee.starts_with("torch.nn.")) continue;
    const NodeId parent = facts.syntax[call->node].parent;
    if (!facts.syntax.Is(parent, Kind::kAssignment)) continue;
    wrapped.emplace(
        LastComponent(facts.names.Key(facts.syntax.Child(parent, PythonFields().left))));
  }
  if (wrapped.empty()) return;
  for (const ModelCall& call : FindModelCalls(facts)) {
    if (!wrapped.contains(std::string(LastComponent(call.key)))) continue;
    const Autocast* autocast = facts.regions.At(call.node);
    if (autocast == nullptr || autocast->enabled == Tri::kNo ||
        autocast->dtype != HalfType::kBf16 || autocast->device == Device::kCpu)
      continue;
    sink.Add(call.node);
  }
}

}  // namespace mpnanny::check::autocast_with_dataparallel
