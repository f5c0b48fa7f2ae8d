#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "engines/check/rule_support.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check::accum_loss_not_divided {
namespace {

// n of `(i + 1) % n == 0`, somewhere in the condition; kNoNode if it asks no such thing.
NodeId Period(const FileFacts& facts, NodeId condition) {
  const Fields& f = PythonFields();
  if (condition == kNoNode) return kNoNode;
  for (NodeId id = condition; id < facts.syntax[condition].after; ++id) {
    if (!facts.syntax.Is(id, Kind::kBinary) ||
        facts.syntax.Text(facts.syntax.Child(id, f.operator_)) != "%")
      continue;
    const NodeId period = facts.syntax.Unwrap(facts.syntax.Child(id, f.right));
    const auto number = facts.bindings.Number(period);
    if (number && *number <= 1) return kNoNode;
    if (!facts.names.Key(period).empty() || number) return period;
  }
  return kNoNode;
}

// True if the name stands for a number of batches that are accumulated.
bool CountsBatches(std::string_view name) {
  const std::string lower = LowerCase(name);
  return lower.find("accum") != std::string::npos || lower.find("micro") != std::string::npos ||
         lower.find("grad_acc") != std::string::npos || lower.find("acc_step") != std::string::npos;
}

// n of `seen == n` or `seen >= n`, where `seen` is counted up in the loop; kNoNode for others.
NodeId CountedTo(const FileFacts& facts, NodeId condition, NodeId loop) {
  const Fields& f = PythonFields();
  const NodeId id = facts.syntax.Unwrap(condition);
  const std::vector<NodeId> operands = facts.syntax.Children(id);
  if (!facts.syntax.Is(id, Kind::kComparison) || operands.size() != 2) return kNoNode;
  const std::string_view op = facts.syntax.Text(facts.syntax.Child(id, f.operators));
  if (op != "==" && op != ">=") return kNoNode;
  const std::string_view counter = facts.syntax.Text(operands[0]);
  const bool counted =
      std::any_of(facts.augmented.begin(), facts.augmented.end(), [&](NodeId augmented) {
        return IsInside(facts, augmented, loop) &&
               facts.syntax.Text(facts.syntax.Child(augmented, f.left)) == counter;
      });
  const std::string key = facts.names.Key(operands[1]);
  const bool named = CountsBatches(counter) || CountsBatches(key);
  return counted && named && !key.empty() ? facts.syntax.Unwrap(operands[1]) : kNoNode;
}

// n of the condition under which a step is taken every n-th time.
NodeId PeriodOf(const FileFacts& facts, NodeId condition, NodeId loop) {
  // is_update = (i + 1) % n == 0
  const NodeId meant = facts.bindings.ValueOf(condition, 1);
  const NodeId period = Period(facts, meant == kNoNode ? condition : meant);
  return period != kNoNode ? period : CountedTo(facts, condition, loop);
}

// The `if` around the step that lets it through every n-th time, inside the loop.
NodeId PeriodicIf(const FileFacts& facts, NodeId step, NodeId loop) {
  for (NodeId up = facts.syntax[step].parent; up > loop; up = facts.syntax[up].parent) {
    if (facts.syntax.Is(up, Kind::kIf) &&
        IsInside(facts, step, facts.syntax.Child(up, PythonFields().consequence)) &&
        PeriodOf(facts, facts.syntax.Child(up, PythonFields().condition), loop) != kNoNode)
      return up;
  }
  return kNoNode;
}

// True if a function of that name, given a number, divides nothing by it.
bool OnlyCounts(std::string_view name) {
  for (const std::string_view word :
       {"range", "print", "len", "min", "max", "int", "info", "log"}) {
    if (name == word) return true;
  }
  return false;
}

// The `if (i + 1) % n != 0: continue` above the step in the same loop; kNoNode if there is none.
NodeId Guard(const FileFacts& facts, NodeId step, NodeId loop) {
  for (NodeId id = loop; id < step; ++id) {
    if (!facts.syntax.Is(id, Kind::kContinue) || LoopOf(facts, id) != loop) continue;
    const NodeId branch = facts.syntax.Enclosing(id, Kind::kIf);
    if (branch > loop && !IsInside(facts, step, branch) &&
        PeriodOf(facts, facts.syntax.Child(branch, PythonFields().condition), loop) != kNoNode)
      return branch;
  }
  return kNoNode;
}

// True if the file computes with the period, or with anything called like accumulation, in a way
// that may divide the loss or the gradients: a division, a product, an argument.
bool ComputesWith(const FileFacts& facts, NodeId period) {
  const Syntax& syntax = facts.syntax;
  const Fields& f = PythonFields();
  const std::string name(LastComponent(facts.names.Key(period)));
  const auto number = name.empty() ? facts.bindings.Number(period) : std::nullopt;
  const auto mentions = [&](NodeId id) {
    const std::string_view text = syntax.Text(id);
    if (number) return facts.bindings.Number(id) == number;
    return text.find(name) != std::string_view::npos || Holds(text, "accum");
  };
  for (NodeId id = 0; id < syntax.size(); ++id) {
    const Kind kind = syntax.kind(id);
    if (kind == Kind::kBinary) {
      const std::string_view op = syntax.Text(syntax.Child(id, f.operator_));
      const std::string_view left = syntax.Text(syntax.Child(id, f.left));
      const std::string_view right = syntax.Text(syntax.Child(id, f.right));
      const bool named = mentions(syntax.Child(id, f.right)) || mentions(syntax.Child(id, f.left));
      // len(loader) / n is the number of steps, batch_size * n that of samples.
      if (op == "/" && named && left.find("len(") == std::string_view::npos) return true;
      if (op == "*" && named &&
          (left.find("loss") != std::string_view::npos ||
           right.find("loss") != std::string_view::npos ||
           left.find("weight_decay") != std::string_view::npos ||
           left.find("lr") != std::string_view::npos))
        return true;
    } else if (kind == Kind::kAugmentedAssignment) {
      const std::string_view op = syntax.Text(syntax.Child(id, f.operator_));
      if ((op == "/=" || op == "*=") && mentions(syntax.Child(id, f.right))) return true;
    } else if (kind == Kind::kCall) {
      const std::string_view method = facts.names.Method(id);
      if ((method.starts_with("div") || method.starts_with("mul")) &&
          mentions(syntax.Child(id, f.arguments)))
        return true;
      // Another function is given it, and may divide.
      const struct Call* known = facts.names.CallAt(id);
      if (number || facts.names.Callee(id).starts_with("torch.") || OnlyCounts(known->name) ||
          syntax.FunctionOf(id) != syntax.FunctionOf(period))
        continue;
      for (const NodeId argument : facts.names.Arguments(id)) {
        if (LastComponent(facts.names.Key(argument)) == name) return true;
      }
    }
  }
  return false;
}

// True if an optimizer steps, or gradients are cleared, in the node.
bool StepsIn(const FileFacts& facts, NodeId node) {
  for (const std::string_view name : {"step", "zero_grad"}) {
    for (const struct Call* call : facts.names.CallsNamed(name)) {
      if (IsInside(facts, call->node, node) &&
          (name == "zero_grad" || facts.scalers.At(call->node) != nullptr ||
           facts.scalers.IsOptimizer(facts.names.Key(call->receiver))))
        return true;
    }
  }
  return false;
}

// The number of rounds of a loop over micro-batches, which steps nowhere: n of `for _ in range(n)`,
// or what a counter is compared with before the `break`. kNoNode for other loops.
NodeId MicroBatches(const FileFacts& facts, NodeId loop) {
  const Fields& f = PythonFields();
  const Syntax& syntax = facts.syntax;
  if (StepsIn(facts, loop)) return kNoNode;
  if (syntax.Is(loop, Kind::kFor)) {
    const NodeId over = syntax.Child(loop, f.right);
    for (const struct Call* call : facts.names.CallsNamed("range")) {
      if (!IsInside(facts, call->node, over)) continue;
      const std::vector<NodeId> arguments = facts.names.Arguments(call->node);
      if (arguments.size() == 1 && CountsBatches(LastComponent(facts.names.Key(arguments[0]))))
        return arguments[0];
    }
    return kNoNode;
  }
  for (NodeId id = loop; id < syntax[loop].after; ++id) {
    if (!syntax.Is(id, Kind::kBreak)) continue;
    const NodeId branch = syntax.Enclosing(id, Kind::kIf);
    if (branch <= loop) continue;
    const NodeId period = CountedTo(facts, syntax.Child(branch, f.condition), loop);
    if (period != kNoNode) return period;
  }
  return kNoNode;
}

std::string Message(const FileFacts& facts, NodeId period) {
  return "The gradients of " + std::string(facts.syntax.Text(period)) +
         " batches are summed, and nothing divides the loss by that number.";
}

// Backward passes in loops over micro-batches.
void CheckMicroBatches(const FileFacts& facts, Sink& sink) {
  for (const struct Call* call : facts.names.CallsNamed("backward")) {
    // accelerator.backward(loss) and the engine's divide by themselves.
    const bool plain = call->receiver != kNoNode && facts.names.Arguments(call->node).empty() &&
                       call->callee.empty();
    const NodeId loop = plain ? LoopOf(facts, call->node) : kNoNode;
    if (loop == kNoNode) continue;
    // (loss.sum() / total).backward(): divided by the size of all batches, perhaps.
    const std::string_view loss = facts.syntax.Text(call->receiver);
    if (loss.find('/') != std::string_view::npos || loss.find("mul(") != std::string_view::npos ||
        loss.find("div(") != std::string_view::npos)
      continue;
    const NodeId period = MicroBatches(facts, loop);
    if (period == kNoNode || ComputesWith(facts, period)) continue;
    const bool scaled = !facts.scalers.ScaledBy(call->receiver).empty();
    sink.Add(call->node, Message(facts, period)).guess =
        !scaled || !facts.syntax.Is(loop, Kind::kFor);
  }
}

// Steps that are taken every n-th time.
void CheckSteps(const FileFacts& facts, Sink& sink) {
  std::vector<NodeId> reported;
  for (const struct Call* step : facts.names.CallsNamed("step")) {
    const ScalerCall* own = facts.scalers.At(step->node);
    const bool plain = own == nullptr && facts.scalers.calls().empty() &&
                       facts.scalers.IsOptimizer(facts.names.Key(step->receiver));
    if (own == nullptr && !plain) continue;
    const NodeId loop = LoopOf(facts, step->node);
    if (loop == kNoNode) continue;
    const NodeId within = PeriodicIf(facts, step->node, loop);
    const NodeId guard = within == kNoNode ? Guard(facts, step->node, loop) : kNoNode;
    const NodeId periodic = within == kNoNode ? guard : within;
    if (periodic == kNoNode) continue;
    // What runs every n-th time: the branch, or all that follows the guard.
    const auto is_periodic = [&](NodeId node) {
      return within != kNoNode ? IsInside(facts, node, within) : node > guard;
    };
    // Gradients are accumulated only if they are cleared as seldom as the step is taken.
    bool cleared = false;
    bool clears_outside = false;
    for (const struct Call* call : facts.names.CallsNamed("zero_grad")) {
      if (!IsInside(facts, call->node, loop)) continue;
      (is_periodic(call->node) ? cleared : clears_outside) = true;
    }
    const auto& calls = facts.scalers.calls();
    const bool other_steps = std::any_of(calls.begin(), calls.end(), [&](const ScalerCall& other) {
      return other.op == ScalerCall::Op::kStep && IsInside(facts, other.call, loop) &&
             !is_periodic(other.call);
    });
    if (!cleared || clears_outside || other_steps) continue;
    const NodeId condition = facts.syntax.Child(periodic, PythonFields().condition);
    const NodeId period = PeriodOf(facts, condition, loop);
    if (plain && !CountsBatches(LastComponent(facts.names.Key(period)))) continue;
    for (const struct Call* call : facts.names.CallsNamed("backward")) {
      if (LoopOf(facts, call->node) != loop || is_periodic(call->node) || call->node > periodic)
        continue;
      const bool taken = plain ? call->receiver != kNoNode && call->callee.empty() &&
                                     facts.names.Arguments(call->node).empty()
                               : !facts.scalers.ScaledBy(call->receiver).empty();
      if (!taken || std::find(reported.begin(), reported.end(), call->node) != reported.end())
        continue;
      if (ComputesWith(facts, period)) return;
      reported.push_back(call->node);
      sink.Add(call->node, Message(facts, period)).guess = plain;
    }
  }
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (facts.project.accelerate || (!facts.project.sixteen_bit && !facts.project.grad_scaler))
    return;
  CheckSteps(facts, sink);
  CheckMicroBatches(facts, sink);
}

}  // namespace mpnanny::check::accum_loss_not_divided
