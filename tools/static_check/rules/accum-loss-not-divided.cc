#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "tools/static_check/rule_support.h"

namespace mpnanny::static_check::accum_loss_not_divided {
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

// The `if` around the step that lets it through every n-th time, inside the loop.
NodeId PeriodicIf(const FileFacts& facts, NodeId step, NodeId loop) {
  for (NodeId up = facts.syntax[step].parent; up > loop; up = facts.syntax[up].parent) {
    if (facts.syntax.Is(up, Kind::kIf) &&
        IsInside(facts, step, facts.syntax.Child(up, PythonFields().consequence)) &&
        Period(facts, facts.syntax.Child(up, PythonFields().condition)) != kNoNode)
      return up;
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
    return text.find(name) != std::string_view::npos ||
           text.find("accum") != std::string_view::npos;
  };
  for (NodeId id = 0; id < syntax.size(); ++id) {
    const Kind kind = syntax.kind(id);
    if (kind == Kind::kBinary) {
      const std::string_view op = syntax.Text(syntax.Child(id, f.operator_));
      if (op != "/" && op != "*") continue;
      // len(loader) / n is the number of steps.
      if (syntax.Text(syntax.Child(id, f.left)).find("len(") == std::string_view::npos &&
          (mentions(syntax.Child(id, f.right)) || mentions(syntax.Child(id, f.left))))
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
      if (number || facts.names.Callee(id).starts_with("torch.") ||
          syntax.FunctionOf(id) != syntax.FunctionOf(period))
        continue;
      for (const NodeId argument : facts.names.Arguments(id)) {
        if (LastComponent(facts.names.Key(argument)) == name) return true;
      }
    }
  }
  return false;
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  std::vector<NodeId> reported;
  for (const ScalerCall& step : facts.scalers.calls()) {
    if (step.op != ScalerCall::Op::kStep) continue;
    const NodeId loop = LoopOf(facts, step.call);
    const NodeId periodic = loop == kNoNode ? kNoNode : PeriodicIf(facts, step.call, loop);
    if (periodic == kNoNode) continue;
    // Gradients are accumulated only if they are cleared as seldom as the step is taken.
    bool cleared = false;
    bool clears_outside = false;
    for (const struct Call* call : facts.names.CallsNamed("zero_grad")) {
      if (!IsInside(facts, call->node, loop)) continue;
      (IsInside(facts, call->node, periodic) ? cleared : clears_outside) = true;
    }
    const auto& calls = facts.scalers.calls();
    const bool other_steps = std::any_of(calls.begin(), calls.end(), [&](const ScalerCall& other) {
      return other.op == ScalerCall::Op::kStep && IsInside(facts, other.call, loop) &&
             !IsInside(facts, other.call, periodic);
    });
    if (!cleared || clears_outside || other_steps) continue;
    const NodeId period = Period(facts, facts.syntax.Child(periodic, PythonFields().condition));
    for (const struct Call* call : facts.names.CallsNamed("backward")) {
      if (LoopOf(facts, call->node) != loop || IsInside(facts, call->node, periodic) ||
          facts.scalers.ScaledBy(call->receiver).empty() || call->node > periodic)
        continue;
      if (std::find(reported.begin(), reported.end(), call->node) != reported.end()) continue;
      if (ComputesWith(facts, period)) return;
      reported.push_back(call->node);
      sink.Add(call->node, "The gradients of " + std::string(facts.syntax.Text(period)) +
                               " batches are summed, and nothing divides the loss by that number.");
    }
  }
}

}  // namespace mpnanny::static_check::accum_loss_not_divided
