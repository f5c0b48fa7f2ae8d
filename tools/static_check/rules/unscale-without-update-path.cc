#include <algorithm>
#include <string_view>
#include <vector>

#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::unscale_without_update_path {
namespace {

// True if the condition asks for bad gradients, or a flag that says so.
bool AsksForBad(std::string_view condition) {
  return HoldsAny(condition, {"skip", "isfinite", "isnan", "isinf", "norm", "overflow"});
}

bool HasElse(const Syntax& syntax, NodeId condition) {
  const std::vector<NodeId> parts = syntax.Children(condition);
  return std::any_of(parts.begin(), parts.end(), [&](NodeId part) {
    return syntax.Is(part, Kind::kElse) || syntax.Is(part, Kind::kElif);
  });
}

// The only update() stands behind a check, and unscale_() before it: for functions with more paths
// than the protocol follows.
void GuessChecked(const FileFacts& facts, Sink& sink) {
  const Fields& f = PythonFields();
  const Syntax& syntax = facts.syntax;
  const std::vector<ScalerCall>& calls = facts.scalers.calls();
  for (const ScalerCall& update : calls) {
    if (update.op != ScalerCall::Op::kUpdate) continue;
    const NodeId function = syntax.FunctionOf(update.call);
    const auto is = [&](const ScalerCall& one, ScalerCall::Op op) {
      return one.op == op && one.scaler == update.scaler && syntax.FunctionOf(one.call) == function;
    };
    if (std::count_if(calls.begin(), calls.end(),
                      [&](const ScalerCall& one) { return is(one, ScalerCall::Op::kUpdate); }) != 1)
      continue;
    for (NodeId part = update.call; part > function; part = syntax[part].parent) {
      const NodeId up = syntax[part].parent;
      if (!syntax.Is(up, Kind::kIf) || syntax[part].field != f.consequence) continue;
      const NodeId condition = syntax.Child(up, f.condition);
      const NodeId block = syntax[up].parent;
      const bool unscaled = std::any_of(calls.begin(), calls.end(), [&](const ScalerCall& one) {
        return is(one, ScalerCall::Op::kUnscale) && one.call < up &&
               IsInside(facts, one.call, block);
      });
      if (!unscaled || !AsksForBad(syntax.Text(condition)) || HasElse(syntax, up)) continue;
      MarkGuess(sink.Add(condition,
                         "Where this does not hold, step() and update() are left out after "
                         "unscale_(): the next unscale_() raises RuntimeError."));
      break;
    }
  }
}

// True if the block leaves the iteration and updates nothing on the way.
bool LeavesWithoutUpdate(const Syntax& syntax, NodeId block) {
  NodeId last = kNoNode;
  for (const NodeId statement : syntax.Children(block)) last = statement;
  return (syntax.Is(last, Kind::kContinue) || syntax.Is(last, Kind::kReturn)) &&
         !HoldsAny(syntax.Text(block), {"update", "step("});
}

// A check for NaN of its own between the backward pass and the step: what is skipped there the
// scaler never hears of, and its scale stays where it overflows.
void GuessOwnCheck(const FileFacts& facts, Sink& sink) {
  const Fields& f = PythonFields();
  const Syntax& syntax = facts.syntax;
  const std::vector<ScalerCall>& calls = facts.scalers.calls();
  for (const ScalerCall& step : calls) {
    if (step.op != ScalerCall::Op::kStep) continue;
    const NodeId function = syntax.FunctionOf(step.call);
    NodeId scaled = kNoNode;
    for (const ScalerCall& one : calls) {
      if (one.op == ScalerCall::Op::kScale && one.scaler == step.scaler && one.call < step.call &&
          syntax.FunctionOf(one.call) == function)
        scaled = one.call;
    }
    if (scaled == kNoNode) continue;
    const NodeId from = syntax.StatementOf(scaled);
    for (NodeId id = syntax[from].after; id < step.call; ++id) {
      if (!syntax.Is(id, Kind::kIf) || IsInside(facts, step.call, id)) continue;
      const NodeId condition = syntax.Child(id, f.condition);
      const NodeId value = facts.bindings.ValueOf(condition);
      const std::string text = std::string(syntax.Text(condition)) + " " +
                               std::string(value == kNoNode ? "" : syntax.Text(value));
      if (!HoldsAny(text, {"isnan", "isinf", "isfinite", "nan_", "_nan", "overflow", "bad_grad"}) ||
          !LeavesWithoutUpdate(syntax, syntax.Child(id, f.consequence)))
        continue;
      MarkGuess(sink.Add(condition,
                         "What is skipped here the scaler never hears of: without update() its "
                         "scale stays where it overflows, and every step after this one may be "
                         "skipped as well."));
      break;
    }
  }
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  ReportViolations(facts, Violation::Kind::kSkippedUpdate, sink, [](const Violation& v) {
    return "This path goes round step() and update() after unscale_(" + v.optimizer +
           "): the next unscale_() raises RuntimeError.";
  });
  const std::vector<Violation>& told = facts.protocol->violations();
  const bool skipped = std::any_of(told.begin(), told.end(), [](const Violation& violation) {
    return violation.kind == Violation::Kind::kSkippedUpdate;
  });
  if (skipped) return;
  GuessOwnCheck(facts, sink);
  GuessChecked(facts, sink);
}

}  // namespace mpnanny::static_check::unscale_without_update_path
