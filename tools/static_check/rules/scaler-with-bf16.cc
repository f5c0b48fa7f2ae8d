#include <algorithm>
#include <vector>

#include "tools/static_check/rule_support.h"

namespace mpnanny::static_check::scaler_with_bf16 {

namespace {

// True if there is an autocast in that function (0: in the file), and all of them are BF16.
bool OnlyBf16(const FileFacts& facts, NodeId function) {
  bool found = false;
  for (const Autocast& autocast : facts.regions.all()) {
    const bool inside = autocast.node >= function && autocast.node < facts.syntax[function].after;
    if (!inside || autocast.enabled == Tri::kNo) continue;
    if (autocast.foreign || autocast.dtype != HalfType::kBf16) return false;
    found = true;
  }
  return found;
}

bool HasAutocast(const FileFacts& facts, NodeId function) {
  const std::vector<Autocast>& all = facts.regions.all();
  return std::any_of(all.begin(), all.end(), [&](const Autocast& autocast) {
    return autocast.node >= function && autocast.node < facts.syntax[function].after;
  });
}

// True if the scaler is a variable of the function that makes it, which scales with it, gives it to
// nobody, and calls no function of this file with an autocast of its own.
bool StaysIn(const FileFacts& facts, const ScalerMade& made, NodeId function) {
  const Syntax& syntax = facts.syntax;
  if (function == 0 || made.key.empty()) return false;
  for (NodeId id = function; id < syntax[function].after; ++id) {
    if (syntax.Is(id, Kind::kIdentifier) && syntax.Text(id) == made.key) {
      const NodeId parent = syntax[id].parent;
      if (!syntax.Is(parent, Kind::kAttribute) && !syntax.Is(parent, Kind::kAssignment))
        return false;
    }
    const Function* callee = syntax.Is(id, Kind::kCall) ? facts.bindings.Callee(id) : nullptr;
    if (callee != nullptr && HasAutocast(facts, callee->node)) return false;
  }
  const std::vector<ScalerCall>& calls = facts.scalers.calls();
  return std::any_of(calls.begin(), calls.end(), [&](const ScalerCall& call) {
    return call.op == ScalerCall::Op::kScale && call.scaler == made.key &&
           syntax.FunctionOf(call.call) == function;
  });
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.scalers.Has(ScalerCall::Op::kScale)) return;
  const bool file = OnlyBf16(facts, 0);
  for (const ScalerMade& made : facts.scalers.made()) {
    if (made.enabled_given) continue;
    const NodeId function = facts.syntax.FunctionOf(made.call);
    if (file || (StaysIn(facts, made, function) && OnlyBf16(facts, function))) sink.Add(made.call);
  }
}

}  // namespace mpnanny::static_check::scaler_with_bf16
