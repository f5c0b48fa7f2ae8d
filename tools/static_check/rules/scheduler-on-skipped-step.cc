#include <algorithm>
#include <cctype>

#include "tools/static_check/rule_support.h"

namespace mpnanny::static_check::scheduler_on_skipped_step {
namespace {

bool IsScheduler(std::string_view key) {
  std::string last(LastComponent(key));
  std::transform(last.begin(), last.end(), last.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return last.find("sched") != std::string::npos;
}

// True if the function looks at whether the step was taken.
bool LooksAtSkips(const FileFacts& facts, NodeId function) {
  for (NodeId id = function; id < facts.syntax[function].after; ++id) {
    if (!facts.syntax.Is(id, Kind::kIdentifier)) continue;
    const std::string_view name = facts.syntax.Text(id);
    for (const std::string_view word : {"get_scale", "found_inf", "_step_count", "skip", "isfinite",
                                        "step_was", "old_scale", "prev_scale"}) {
      if (name.find(word) != std::string_view::npos) return true;
    }
  }
  return false;
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.scalers.Has(ScalerCall::Op::kStep)) return;
  for (const struct Call* call : facts.names.CallsNamed("step")) {
    if (call->receiver == kNoNode || !IsScheduler(facts.names.Key(call->receiver))) continue;
    const NodeId loop = LoopOf(facts, call->node);
    if (loop == kNoNode) continue;
    const NodeId function = facts.syntax.FunctionOf(call->node);
    const auto& calls = facts.scalers.calls();
    const bool same_loop = std::any_of(calls.begin(), calls.end(), [&](const ScalerCall& other) {
      return other.op == ScalerCall::Op::kStep && LoopOf(facts, other.call) == loop;
    });
    if (same_loop && !LooksAtSkips(facts, function)) sink.Add(call->node);
  }
}

}  // namespace mpnanny::static_check::scheduler_on_skipped_step
