#include <string>

#include "engines/check/rule_support.h"

namespace mpnanny::check::stale_unscaled_grads {

// True for what measures the time of a step: what its gradients hold is of no account.
static bool IsSpeedTest(const FileFacts& facts, NodeId node) {
  const auto calls = facts.names.CallsNamed("synchronize");
  return std::any_of(calls.begin(), calls.end(), [&](const Call* call) {
    return call->callee == "torch.cuda.synchronize" &&
           facts.syntax.FunctionOf(call->node) == facts.syntax.FunctionOf(node);
  });
}

// True if the file clears gradients by zero_grad(), on another branch than the one that is named,
// and the function does not by other means.
static bool ClearsElsewhere(const FileFacts& facts, NodeId node) {
  const Fields& f = PythonFields();
  const bool by_hand =
      std::any_of(facts.assignments.begin(), facts.assignments.end(), [&](NodeId id) {
        const NodeId target = facts.syntax.Child(id, f.left);
        return facts.syntax.FunctionOf(id) == facts.syntax.FunctionOf(node) &&
               facts.syntax.Is(target, Kind::kAttribute) &&
               facts.syntax.Text(facts.syntax.Child(target, f.attribute)) == "grad" &&
               facts.syntax.Is(facts.syntax.Child(id, f.right), Kind::kNone);
      });
  return !facts.names.CallsNamed("zero_grad").empty() && !by_hand;
}

void Check(const FileFacts& facts, Sink& sink) {
  const auto message = [](const Violation& v) {
    return "The gradients of " + v.optimizer +
           " from the step before are still there: nothing on this path has cleared them since " +
           v.scaler + ".step(" + v.optimizer + ").";
  };
  ReportViolations(facts, Violation::Kind::kStaleGradients, sink, message,
                   [&](const Violation& v, RawFinding& finding) {
                     finding.guess = finding.guess || IsSpeedTest(facts, v.node);
                     // Whoever clears nothing here may do so by other means.
                     if (!ClearsElsewhere(facts, v.node)) finding.form = "never-cleared";
                   });
}

}  // namespace mpnanny::check::stale_unscaled_grads
