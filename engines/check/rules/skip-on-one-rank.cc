#include <string>
#include <string_view>

#include "engines/check/rule_support.h"

namespace mpnanny::check::skip_on_one_rank {
namespace {

// Whether the file trains on several ranks that wait for each other's gradients.
bool WaitsForRanks(const FileFacts& facts) {
  for (const std::string_view name :
       {"DistributedDataParallel", "DDP", "fully_shard", "FullyShardedDataParallel", "FSDP"}) {
    if (!facts.names.CallsNamed(name).empty()) return true;
  }
  return false;
}

bool IsCheck(std::string_view name) {
  return name == "isfinite" || name == "isnan" || name == "isinf";
}

// Whether the ranks agree somewhere between the two nodes.
bool Agree(const FileFacts& facts, NodeId from, NodeId to) {
  for (const Call& call : facts.names.calls()) {
    if (call.node < from || call.node > to) continue;
    for (const std::string_view word : {"reduce", "gather", "broadcast"}) {
      if (call.name.find(word) != std::string_view::npos) return true;
    }
  }
  return false;
}

// `node`, or a child of it, is what leaves the turn of the loop at once.
NodeId LeavesTurn(const FileFacts& facts, NodeId body) {
  for (const NodeId each : facts.syntax.Children(body)) {
    if (facts.syntax.Is(each, Kind::kContinue) || facts.syntax.Is(each, Kind::kBreak)) return each;
  }
  return kNoNode;
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  const auto backwards = facts.names.CallsNamed("backward");
  if (backwards.empty() || !WaitsForRanks(facts)) return;
  const Fields& f = PythonFields();
  for (const Call& call : facts.names.calls()) {
    if (!IsCheck(call.name)) continue;
    const NodeId branch = facts.syntax.Enclosing(call.node, Kind::kIf);
    const NodeId loop = LoopOf(facts, call.node);
    if (branch == kNoNode || loop == kNoNode || !IsInside(facts, branch, loop)) continue;
    if (!IsInside(facts, call.node, facts.syntax.Child(branch, f.condition))) continue;
    if (LeavesTurn(facts, facts.syntax.Child(branch, f.consequence)) == kNoNode) continue;
    bool waits = false;  // for the other ranks, behind the branch
    for (const Call* backward : backwards) {
      waits = waits || (IsInside(facts, backward->node, loop) &&
                        backward->node >= facts.syntax[branch].after);
    }
    if (!waits || Agree(facts, loop, call.node)) continue;
    sink.Add(branch,
             "Only the rank whose value is not finite leaves out this step: the others wait in "
             "backward() for its gradients.");
  }
}

}  // namespace mpnanny::check::skip_on_one_rank
