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

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  ReportViolations(facts, Violation::Kind::kSkippedUpdate, sink, [](const Violation& v) {
    return "This path goes round step() and update() after unscale_(" + v.optimizer +
           "): the next unscale_() raises RuntimeError.";
  });
  const std::vector<Violation>& told = facts.protocol->violations();
  if (std::none_of(told.begin(), told.end(), [](const Violation& violation) {
        return violation.kind == Violation::Kind::kSkippedUpdate;
      }))
    GuessChecked(facts, sink);
}

}  // namespace mpnanny::static_check::unscale_without_update_path
