#include <string>

#include "base/text.h"
#include "engines/check/rule_support.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check::stale_unscaled_grads {

// True for what only measures time, by its name: what its gradients hold is of no account.
static bool IsSpeedTest(const FileFacts& facts, NodeId node) {
  const Function* function = facts.bindings.FunctionAt(facts.syntax.FunctionOf(node));
  return function != nullptr && HoldsAny(LowerCase(function->name),
                                         {"speed", "bench", "throughput", "latency", "profile"});
}

// True if the file clears gradients by zero_grad(), on another branch than the one that is named,
// and the function does not by other means.
static bool ClearsElsewhere(const FileFacts& facts, NodeId node) {
  return !facts.names.CallsNamed("zero_grad").empty() &&
         !Holds(facts.syntax.Text(facts.syntax.FunctionOf(node)), ".grad = None");
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
