#include <algorithm>

#include "tools/static_check/rule_support.h"

namespace mpnanny::static_check::scaler_recreated_per_epoch {
namespace {

// True if an optimizer, or something that may hold one, is made there: then it is a new training
// and not the next epoch of an old one.
bool StartsTraining(const FileFacts& facts, NodeId node) {
  for (const struct Call& call : facts.names.calls()) {
    if (!IsInside(facts, call.node, node)) continue;
    const bool constructor = !call.name.empty() && call.name[0] >= 'A' && call.name[0] <= 'Z' &&
                             call.callee.starts_with("torch.optim") &&
                             call.callee.find("lr_sched") == std::string::npos;
    const bool made = call.name.find("optim") != std::string_view::npos ||
                      call.name.find("Optim") != std::string_view::npos ||
                      call.name.find("build") != std::string_view::npos ||
                      call.name.find("create_model") != std::string_view::npos ||
                      call.name.find("get_model") != std::string_view::npos;
    if (constructor || made) return true;
  }
  return false;
}

bool HasStep(const FileFacts& facts, NodeId node, std::string_view scaler) {
  const auto& calls = facts.scalers.calls();
  return std::any_of(calls.begin(), calls.end(), [&](const ScalerCall& call) {
    return call.op == ScalerCall::Op::kStep && call.scaler == scaler &&
           IsInside(facts, call.call, node);
  });
}

// True if the function trains for one epoch of several: it is told which, or a loop calls it.
bool IsEpoch(const FileFacts& facts, const Function& function) {
  for (const std::string& parameter : function.parameters) {
    if (parameter == "epoch" || parameter == "cur_epoch" || parameter == "current_epoch" ||
        parameter == "epoch_idx")
      return true;
  }
  for (const struct Call* call : facts.names.CallsNamed(function.name)) {
    if (LoopOf(facts, call->node) != kNoNode && !StartsTraining(facts, LoopOf(facts, call->node)) &&
        facts.bindings.Callee(call->node) == &function)
      return true;
  }
  return false;
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  for (const ScalerMade& made : facts.scalers.made()) {
    if (made.enabled_false || made.key.empty() || made.key.find('.') != std::string::npos) continue;
    const NodeId function = facts.syntax.FunctionOf(made.call);
    const NodeId loop = LoopOf(facts, made.call);
    if (loop != kNoNode) {
      // `if scaler is None: scaler = GradScaler()` runs once.
      const bool guarded = facts.syntax.Enclosing(made.call, Kind::kIf) > loop;
      if (!guarded && HasStep(facts, loop, made.key) && !StartsTraining(facts, loop))
        sink.Add(made.call, "A new GradScaler is made in every round of this loop.");
      continue;
    }
    if (function == 0 || facts.syntax.Enclosing(made.call, Kind::kIf) > function) continue;
    const auto& functions = facts.bindings.functions();
    const auto it = std::find_if(functions.begin(), functions.end(),
                                 [&](const Function& f) { return f.node == function; });
    if (it == functions.end() || !HasStep(facts, function, made.key) ||
        StartsTraining(facts, function) || !IsEpoch(facts, *it))
      continue;
    RawFinding& finding = sink.Add(
        made.call,
        it->name + "() makes a new GradScaler each time it is called, which is once an epoch.");
    finding.guess = facts.names.ImportsModule("torch_xla");  // where it switches itself off
  }
}

}  // namespace mpnanny::static_check::scaler_recreated_per_epoch
