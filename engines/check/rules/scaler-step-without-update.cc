#include "engines/check/rule_support.h"

namespace mpnanny::check::scaler_step_without_update {

void Check(const FileFacts& facts, Sink& sink) {
  ReportViolations(facts, Violation::Kind::kStepWithoutUpdate, sink, [](const Violation& v) {
    return "step(" + v.optimizer +
           ") can be reached again without update() in between: it raises RuntimeError.";
  });
  // One step a call, and no update() anywhere: the loop that calls this stands in another function.
  if (facts.project.scaler_updates) return;
  bool reported = false;
  for (const Violation& v : facts.scaler_order->violations())
    reported = reported || v.kind == Violation::Kind::kStepWithoutUpdate;
  bool handed_on = false;  // somebody else may update it
  ForEachCall(facts, [&](NodeId call) {
    for (const NodeId argument : facts.names.Arguments(call))
      handed_on = handed_on || facts.scalers.IsScaler(facts.names.Key(argument));
  });
  if (reported || handed_on) return;
  for (const ScalerCall& call : facts.scalers.calls()) {
    if (call.op != ScalerCall::Op::kStep) continue;
    bool scales = false;
    for (const ScalerCall& other : facts.scalers.calls()) {
      scales =
          scales || (other.op == ScalerCall::Op::kScale && other.scaler == call.scaler &&
                     facts.syntax.FunctionOf(other.call) == facts.syntax.FunctionOf(call.call));
    }
    if (scales) {
      sink.Add(call.call,
               call.scaler + ".step() is called, and " + call.scaler + ".update() never is.");
      return;
    }
  }
}

}  // namespace mpnanny::check::scaler_step_without_update
