#include <algorithm>
#include <string>
#include <vector>

#include "engines/check/rule_support.h"

namespace mpnanny::check::double_unscale {
namespace {

// The text of the optimizer that a call on a scaler is given.
std::string_view OptimizerText(const FileFacts& facts, NodeId call) {
  const NodeId argument = facts.names.Argument(call, 0, "optimizer");
  return argument == kNoNode ? std::string_view{} : facts.syntax.Text(argument);
}

// unscale_(opt) and step(opt.optimizer): the scaler knows optimizers as objects, and for it the
// wrapper and what it wraps are two.
void CheckWrapped(const FileFacts& facts, Sink& sink) {
  const std::vector<ScalerCall>& calls = facts.scalers.calls();
  const auto beside = [&](const ScalerCall& one, ScalerCall::Op op, std::string_view optimizer) {
    return std::any_of(calls.begin(), calls.end(), [&](const ScalerCall& other) {
      return other.op == op && other.scaler == one.scaler &&
             facts.syntax.FunctionOf(other.call) == facts.syntax.FunctionOf(one.call) &&
             OptimizerText(facts, other.call) == optimizer;
    });
  };
  constexpr std::string_view kWrapped = ".optimizer";
  for (const ScalerCall& step : calls) {
    const std::string stepped(OptimizerText(facts, step.call));
    if (step.op != ScalerCall::Op::kStep || stepped.empty() ||
        beside(step, ScalerCall::Op::kUnscale, stepped))
      continue;
    std::string other = stepped + std::string(kWrapped);
    if (!beside(step, ScalerCall::Op::kUnscale, other)) {
      if (!stepped.ends_with(kWrapped)) continue;
      other = stepped.substr(0, stepped.size() - kWrapped.size());
      if (!beside(step, ScalerCall::Op::kUnscale, other)) continue;
    }
    sink.Add(step.call, "unscale_(" + other + ") and step(" + stepped +
                            ") name two objects: step() does not know that the gradients are "
                            "unscaled, and divides them by the scale a second time.")
        .guess = true;
  }
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  // Who asks the scaler's own record of an optimizer may know what was unscaled.
  const bool asks_record = !facts.names.Uses("OptState").empty();
  const auto mind = [&](const Violation&, RawFinding& finding) {
    finding.guess = finding.guess || asks_record;
  };
  const auto report = [&](Violation::Kind kind,
                          const std::function<std::string(const Violation&)>& message) {
    ReportViolations(facts, kind, sink, message, mind);
  };
  report(Violation::Kind::kDoubleUnscale, [](const Violation& v) {
    return "unscale_(" + v.optimizer +
           ") can be reached again before update(): the second call raises RuntimeError.";
  });
  report(Violation::Kind::kUnscaleAfterStep, [](const Violation& v) {
    return "unscale_(" + v.optimizer +
           ") comes after step(), which has unscaled already: it raises RuntimeError.";
  });
  report(Violation::Kind::kUnscaledTwice, [](const Violation& v) {
    return "unscale_(" + v.optimizer +
           ") can be reached again with gradients of before still there: those of the earlier "
           "backward passes are divided by the loss scale a second time.";
  });
  CheckWrapped(facts, sink);
}

}  // namespace mpnanny::check::double_unscale
