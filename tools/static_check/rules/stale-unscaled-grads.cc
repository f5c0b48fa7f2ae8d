#include "tools/static_check/rule_support.h"

namespace mpnanny::static_check::stale_unscaled_grads {

void Check(const FileFacts& facts, Sink& sink) {
  ReportViolations(facts, Violation::Kind::kStaleGradients, sink, [](const Violation& v) {
    return "The gradients of " + v.optimizer +
           " from the step before are still there: nothing on this path has cleared them since " +
           v.scaler + ".step(" + v.optimizer + ").";
  });
}

}  // namespace mpnanny::static_check::stale_unscaled_grads
