#include "engines/check/rule_support.h"

namespace mpnanny::check::scaler_mismatch {

void Check(const FileFacts& facts, Sink& sink) {
  ReportViolations(facts, Violation::Kind::kOtherScaler, sink, [](const Violation& v) {
    return "The loss was scaled by " + v.scaler +
           "; another scaler is asked to unscale its gradients.";
  });
}

}  // namespace mpnanny::check::scaler_mismatch
