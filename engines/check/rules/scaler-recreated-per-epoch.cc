#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "engines/check/facts/fp16_use.h"
#include "engines/check/facts/switches.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::scaler_recreated_per_epoch {
namespace {

bool IsOptimizerMade(const struct Call& call) {
  return call.callee.starts_with("torch.optim.") && !call.callee.starts_with("torch.optim.lr_sch");
}

// True if an optimizer is made there, or by a function that is called there: then it is a new
// training and not the next epoch of an old one.
bool StartsTraining(const FileFacts& facts, NodeId node, int depth = 2) {
  for (const struct Call& call : facts.names.calls()) {
    if (!IsInside(facts, call.node, node)) continue;
    if (IsOptimizerMade(call)) return true;
    if (depth == 0) continue;
    const Definition callee = facts.Callee(call.node);
    if (callee.function != nullptr && callee.function->node != 0 &&
        StartsTraining(*(*facts.files)[callee.module], callee.function->node, depth - 1))
      return true;
  }
  return false;
}

// True if the variable gets there what a call gives; `opt = self.opt` makes nothing.
bool IsMade(const FileFacts& facts, std::string_view variable, NodeId node) {
  const auto it = facts.bindings.all().find(variable);
  return it != facts.bindings.all().end() &&
         std::any_of(it->second.begin(), it->second.end(), [&](const Assignment& assignment) {
           if (!IsInside(facts, assignment.target, node)) return false;
           const NodeId statement = facts.syntax.Enclosing(assignment.target, Kind::kAssignment);
           if (statement == kNoNode) return false;
           const NodeId value =
               facts.syntax.Unwrap(facts.syntax.Child(statement, PythonFields().right));
           return facts.syntax.Is(value, Kind::kCall);
         });
}

// The optimizers that the scaler steps there.
std::set<std::string> SteppedIn(const FileFacts& facts, NodeId node, std::string_view scaler) {
  std::set<std::string> optimizers;
  for (const ScalerCall& call : facts.scalers.calls()) {
    if (call.op == ScalerCall::Op::kStep && call.scaler == scaler && !call.optimizer.empty() &&
        IsInside(facts, call.call, node))
      optimizers.insert(call.optimizer);
  }
  return optimizers;
}

// True if an optimizer that the scaler steps is new there, too: folds, stages, trials.
bool RenewsOptimizer(const FileFacts& facts, NodeId node, std::string_view scaler) {
  const std::set<std::string> optimizers = SteppedIn(facts, node, scaler);
  return std::any_of(optimizers.begin(), optimizers.end(),
                     [&](const std::string& one) { return IsMade(facts, one, node); });
}

bool HasStep(const FileFacts& facts, NodeId node, std::string_view scaler) {
  const auto& calls = facts.scalers.calls();
  return std::any_of(calls.begin(), calls.end(), [&](const ScalerCall& call) {
    return call.op == ScalerCall::Op::kStep && call.scaler == scaler &&
           IsInside(facts, call.call, node);
  });
}

// True if the call in the loop hands over an optimizer that the same turn of the loop has made.
bool HandsNewOptimizer(const FileFacts& file, NodeId call, NodeId loop, const Function& function,
                       const std::set<std::string>& optimizers) {
  for (size_t i = 0; i < function.parameters.size(); ++i) {
    if (!optimizers.contains(function.parameters[i])) continue;
    const NodeId given = file.names.Argument(call, static_cast<int>(i), function.parameters[i]);
    if (given == kNoNode) continue;
    const std::string key = file.names.Key(given);
    if (file.syntax.Is(given, Kind::kCall) || (!key.empty() && IsMade(file, key, loop)))
      return true;
  }
  return false;
}

// True if a loop of any file calls the function for an existing training, of whose optimizers the
// scaler steps these.
bool IsCalledInLoop(const FileFacts& facts, const Function& function,
                    const std::set<std::string>& optimizers) {
  for (const FileFacts* file : *facts.files) {
    for (const CallEdge& edge : facts.modules->Edges(file->number)) {
      if (edge.callee.function != &function) continue;
      const NodeId loop = LoopOf(*file, edge.call);
      if (loop != kNoNode && !StartsTraining(*file, loop) &&
          !HandsNewOptimizer(*file, edge.call, loop, function, optimizers))
        return true;
    }
  }
  return false;
}

bool IsToldEpoch(const Function& function) {
  constexpr std::string_view kNames[] = {"epoch",     "cur_epoch", "current_epoch",
                                         "epoch_idx", "epoch_num", "ep"};
  return std::any_of(
      function.parameters.begin(), function.parameters.end(), [&](const std::string& parameter) {
        return std::find(std::begin(kNames), std::end(kNames), parameter) != std::end(kNames);
      });
}

// True if the function trains for one epoch of several: it is told which, or a loop calls it.
bool IsEpoch(const FileFacts& facts, const Function& function, std::string_view scaler) {
  return IsToldEpoch(function) ||
         IsCalledInLoop(facts, function, SteppedIn(facts, function.node, scaler));
}

// True if the function is one training step: it scales and steps in no loop of its own.
bool IsOneStep(const FileFacts& facts, const Function& function, std::string_view scaler) {
  // It must be known to run more than once.
  const bool again = function.klass != kNoNode ||
                     IsCalledInLoop(facts, function, SteppedIn(facts, function.node, scaler));
  if (!again) return false;
  bool scales = false;
  for (const ScalerCall& call : facts.scalers.calls()) {
    if (call.scaler != scaler || facts.syntax.FunctionOf(call.call) != function.node) continue;
    if (LoopOf(facts, call.call) != kNoNode) return false;
    scales = scales || call.op == ScalerCall::Op::kScale;
  }
  return scales;
}

// `if scaler is None: scaler = GradScaler()` runs once; `if use_amp:` runs as often as the rest.
bool IsGuarded(const FileFacts& facts, const ScalerMade& made, NodeId outside) {
  const NodeId branch = facts.syntax.Enclosing(made.call, Kind::kIf);
  if (branch == kNoNode || branch <= outside) return false;
  const NodeId condition = facts.syntax.Child(branch, PythonFields().condition);
  for (NodeId id = condition; id < facts.syntax[condition].after; ++id) {
    const std::string_view text = facts.syntax.Text(id);
    if (facts.syntax.Is(id, Kind::kNone) || (facts.syntax.Is(id, Kind::kInteger) && text == "0") ||
        (facts.syntax.Is(id, Kind::kIdentifier) &&
         (text == LastComponent(made.key) || text == "hasattr")))
      return true;
  }
  return false;
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  // `if old: scaler = … else: scaler = …` is told once.
  std::set<std::pair<NodeId, std::string>> told;
  std::optional<bool> matters;
  const auto add = [&](const ScalerMade& made, bool certain, std::string message) {
    if (!told.emplace(facts.syntax.FunctionOf(made.call), made.key).second) return;
    if (!matters) matters = MayRunInFp16(facts);
    // Where torch_xla is, it may switch itself off.
    sink.Add(made.call, std::move(message)).guess =
        !certain || !*matters || facts.names.ImportsModule("torch_xla");
  };
  for (const ScalerMade& made : facts.scalers.made()) {
    if (made.enabled_false || made.key.empty() ||
        IsNeverSwitchedOn(facts, facts.names.Argument(made.call, -1, "enabled")))
      continue;
    const NodeId function = facts.syntax.FunctionOf(made.call);
    const NodeId loop = LoopOf(facts, made.call);
    if (loop != kNoNode) {
      if (made.key.find('.') == std::string::npos && !IsGuarded(facts, made, loop) &&
          HasStep(facts, loop, made.key) && !StartsTraining(facts, loop) &&
          !RenewsOptimizer(facts, loop, made.key))
        add(made, true, "A new GradScaler is made in every round of this loop.");
      continue;
    }
    const Function* own = facts.bindings.FunctionAt(function);
    if (function == 0 || own == nullptr || IsGuarded(facts, made, function) ||
        !HasStep(facts, function, made.key) || StartsTraining(facts, function) ||
        RenewsOptimizer(facts, function, made.key))
      continue;
    // What is kept in self may be made anew by whoever starts a training.
    const bool kept = made.key.find('.') != std::string::npos;
    if (kept && !IsToldEpoch(*own)) continue;
    const bool one_step = !kept && IsOneStep(facts, *own, made.key);
    const bool certain = one_step || IsEpoch(facts, *own, made.key);
    // A method may be called once an epoch by code that is not seen.
    if (!certain && own->klass == kNoNode) continue;
    add(made, certain,
        own->name + "() makes a new GradScaler each time it is called, which is " +
            (one_step ? "once a step." : "once an epoch."));
  }
}

}  // namespace mpnanny::check::scaler_recreated_per_epoch
