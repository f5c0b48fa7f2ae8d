#include "engines/check/rule_support.h"

namespace mpnanny::check::scale_read_after_update {

void Check(const FileFacts& facts, Sink& sink) {
  ReportViolations(facts, Violation::Kind::kScaleAfterUpdate, sink, [](const Violation& v) {
    return "update() may have changed the scale of " + v.scaler +
           " since the value was multiplied by it: what is divided here can be 2 times off.";
  });
}

}  // namespace mpnanny::check::scale_read_after_update
