#include "engines/check/rule_support.h"

namespace mpnanny::check::update_between_optimizers {

void Check(const FileFacts& facts, Sink& sink) {
  ReportViolations(facts, Violation::Kind::kUpdateBetween, sink, [](const Violation& v) {
    return "The gradients of " + v.optimizer + " were scaled before " + v.scaler +
           ".update() and are unscaled after it, perhaps with another scale.";
  });
}

}  // namespace mpnanny::check::update_between_optimizers
