#include "engines/check/rule_support.h"

namespace mpnanny::check::update_without_step {

void Check(const FileFacts& facts, Sink& sink) {
  ReportViolations(facts, Violation::Kind::kUpdateWithoutStep, sink, [](const Violation& v) {
    return "update() can be reached although nothing has stepped or unscaled since " + v.scaler +
           " scaled the loss: it raises AssertionError.";
  });
}

}  // namespace mpnanny::check::update_without_step
