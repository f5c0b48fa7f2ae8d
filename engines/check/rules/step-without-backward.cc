#include "engines/check/rule_support.h"

namespace mpnanny::check::step_without_backward {

void Check(const FileFacts& facts, Sink& sink) {
  ReportViolations(facts, Violation::Kind::kStepOnNone, sink, [](const Violation& v) {
    return v.scaler + ".step(" + v.optimizer +
           ") finds no gradients: they were cleared, and backward() comes after it. It raises "
           "AssertionError.";
  });
}

}  // namespace mpnanny::check::step_without_backward
