#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/rule_support.h"

namespace mpnanny::static_check::optimizer_step_with_scaler {

// optimizer.step(closure) with a closure that scales its loss: the optimizer takes what carries the
// scale, whoever updates the scaler.
static void GuessClosure(const FileFacts& facts, Sink& sink) {
  if (!facts.scalers.Has(ScalerCall::Op::kScale)) return;
  for (const Call* step : facts.names.CallsNamed("step")) {
    if (step->receiver == kNoNode || facts.scalers.At(step->node) != nullptr) continue;
    const NodeId closure = facts.names.Argument(step->node, 0, "closure");
    if (!facts.syntax.Is(closure, Kind::kIdentifier)) continue;
    for (const ScalerCall& scale : facts.scalers.calls()) {
      const Function* inside = facts.bindings.FunctionAt(facts.syntax.FunctionOf(scale.call));
      if (scale.op != ScalerCall::Op::kScale || inside == nullptr || inside->node == 0 ||
          inside->name != facts.syntax.Text(closure))
        continue;
      MarkGuess(sink.Add(step->node, "The closure leaves gradients that carry the scale of " +
                                         scale.scaler + ", and this step takes them as they are."));
      break;
    }
  }
}

void Check(const FileFacts& facts, Sink& sink) {
  GuessClosure(facts, sink);
  ReportViolations(
      facts, Violation::Kind::kPlainStepScaled, sink,
      [](const Violation& v) {
        return v.optimizer + ".step() takes gradients that carry the loss scale of " + v.scaler +
               ".";
      },
      [](const Violation&, RawFinding& finding) { finding.form = "scaled"; });
  ReportViolations(facts, Violation::Kind::kPlainStepAfterScaler, sink, [](const Violation& v) {
    return v.optimizer + ".step() comes on top of " + v.scaler + ".step(" + v.optimizer +
           "): every step is taken twice.";
  });
}

}  // namespace mpnanny::static_check::optimizer_step_with_scaler
