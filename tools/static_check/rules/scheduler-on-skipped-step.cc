#include <algorithm>
#include <string>

#include "base/text.h"
#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::scheduler_on_skipped_step {
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

// Whatever is called scheduler and steps, behind a scaler's step or in a step of training.
void GuessNamed(const FileFacts& facts, Sink& sink) {
  if (!Holds(facts.syntax.text(), "sched")) return;
  for (const struct Call& call : facts.names.calls()) {
    if (!Holds(call.name, "step")) continue;
    const std::string key = facts.names.Key(facts.syntax.Child(call.node, PythonFields().function));
    const std::string lower = LowerCase(key);
    const size_t last = lower.rfind('.') == std::string::npos ? 0 : lower.rfind('.') + 1;
    const std::string_view name = std::string_view(lower).substr(last);
    const bool steps = Holds(name, "step") && Holds(lower, "sched");
    if (!steps || Holds(lower, "noise") || Holds(lower, "loss") || Holds(lower, "temp")) continue;
    const NodeId function = facts.syntax.FunctionOf(call.node);
    const Function* own = facts.bindings.FunctionAt(function);
    if (own == nullptr || LooksAtSkips(facts, function)) continue;
    bool after = false;
    for (const ScalerCall& scaler : facts.scalers.calls()) {
      after = after || (scaler.op == ScalerCall::Op::kStep && scaler.call < call.node &&
                        facts.syntax.FunctionOf(scaler.call) == function);
    }
    const bool hook = own->klass != kNoNode && facts.project.scaler_updates &&
                      HoldsAny(own->name, {"step", "batch", "iter", "optimize"}) &&
                      !HoldsAny(own->name, {"valid", "epoch", "eval", "test", "predict"});
    // Once an epoch it does not matter.
    const NodeId loop = LoopOf(facts, call.node);
    const bool epochs =
        loop != kNoNode && !IsOverIterations(facts, loop) &&
        Holds(LowerCase(facts.syntax.Text(facts.syntax.Child(loop, PythonFields().left))), "epoch");
    const bool told = call.name == "step" && call.receiver != kNoNode &&
                      IsScheduler(facts.names.Key(call.receiver)) && IsAsOften(facts, call.node);
    if (!(after || hook) || epochs || told) continue;
    MarkGuess(sink.Add(call.node,
                       "Steps whatever the scaler does: where it skips the optimizer's step for an "
                       "overflow, the schedule runs ahead."));
  }
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
  GuessNamed(facts, sink);
}

}  // namespace mpnanny::static_check::scheduler_on_skipped_step
