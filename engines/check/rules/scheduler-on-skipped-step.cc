#include <algorithm>
#include <string>

#include "base/text.h"
#include "engines/check/rule_support.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check::scheduler_on_skipped_step {
namespace {

bool IsScheduler(std::string_view key) {
  return LowerCase(LastComponent(key)).find("sched") != std::string::npos;
}

// True if the function looks at whether the step was taken.
bool LooksAtSkips(const FileFacts& facts, NodeId function) {
  for (NodeId id = function; id < facts.syntax[function].after; ++id) {
    if (!facts.syntax.Is(id, Kind::kIdentifier)) continue;
    const std::string_view name = facts.syntax.Text(id);
    if (HoldsAny(name, {"get_scale", "found_inf", "_step_count", "skip", "isfinite", "step_was",
                        "old_scale", "prev_scale"}))
      return true;
  }
  return false;
}

// True if the loop runs over iterations, not over epochs, as far as its head says it.
bool IsOverIterations(const FileFacts& facts, NodeId loop) {
  const Fields& f = PythonFields();
  std::string head;
  for (const uint16_t field : {f.left, f.right, f.condition})
    head += LowerCase(facts.syntax.Text(facts.syntax.Child(loop, field))) + " ";
  if (const size_t at = head.find("per_epoch"); at != std::string::npos) head.erase(at, 9);
  if (head.find("epoch") != std::string::npos) return false;
  return HoldsAny(head, {"step", "iter", "batch", "loader"});
}

// A step of the scaler, or a call of a function that takes one.
bool StepsScaler(const FileFacts& facts, NodeId call) {
  const ScalerCall* own = facts.scalers.At(call);
  if (own != nullptr) return own->op == ScalerCall::Op::kStep;
  const std::string key = facts.names.Key(facts.syntax.Child(call, PythonFields().function));
  const auto& wrappers = facts.scalers.wrappers();
  if (!key.empty() && std::any_of(wrappers.begin(), wrappers.end(),
                                  [&](const ScalerMade& made) { return made.key == key; }))
    return true;
  const Definition callee = facts.Callee(call);
  if (callee.function == nullptr || callee.function->node == 0) return false;
  const FileFacts& there = *(*facts.files)[callee.module];
  const auto& calls = there.scalers.calls();
  return std::any_of(calls.begin(), calls.end(), [&](const ScalerCall& other) {
    return other.op == ScalerCall::Op::kStep &&
           there.syntax.FunctionOf(other.call) == callee.function->node &&
           LoopOf(there, other.call) == kNoNode;
  });
}

// True if the scheduler's step is taken as often as the scaler's.
bool IsAsOften(const FileFacts& facts, NodeId scheduler) {
  const NodeId loop = LoopOf(facts, scheduler);
  const NodeId function = facts.syntax.FunctionOf(scheduler);
  for (const struct Call& call : facts.names.calls()) {
    if (facts.syntax.FunctionOf(call.node) != function || !StepsScaler(facts, call.node)) continue;
    const NodeId steps = LoopOf(facts, call.node);
    if (steps == loop && (loop != kNoNode || function != 0)) return true;
    // Several models are stepped in a loop inside the iteration.
    if (loop != kNoNode && IsInside(facts, steps, loop) && IsOverIterations(facts, loop) &&
        !IsOverIterations(facts, steps))
      return true;
  }
  return false;
}

// A hook that a trainer calls after every iteration.
bool IsStepHook(std::string_view function) {
  for (const std::string_view name :
       {"after_step", "after_iter", "after_train_iter", "on_train_batch_end", "on_batch_end",
        "after_train_step", "on_step_end", "after_optimizer_step", "after_update"}) {
    if (function == name) return true;
  }
  return false;
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.grad_scaler && facts.scalers.wrappers().empty()) return;
  for (const struct Call* call : facts.names.CallsNamed("step")) {
    if (call->receiver == kNoNode || !IsScheduler(facts.names.Key(call->receiver))) continue;
    const NodeId function = facts.syntax.FunctionOf(call->node);
    const Function* own = facts.bindings.FunctionAt(function);
    const bool hook = own != nullptr && own->klass != kNoNode && IsStepHook(own->name) &&
                      facts.project.scaler_updates;
    if (!hook && !IsAsOften(facts, call->node)) continue;
    if (!LooksAtSkips(facts, function)) sink.Add(call->node).guess = hook;
  }
}

}  // namespace mpnanny::check::scheduler_on_skipped_step
