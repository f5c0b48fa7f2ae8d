#include "engines/check/rule_support.h"

namespace mpnanny::check::optimizer_step_with_scaler {

void Check(const FileFacts& facts, Sink& sink) {
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

}  // namespace mpnanny::check::optimizer_step_with_scaler
