#include "engines/check/rule_support.h"

namespace mpnanny::check::unscale_without_update_path {

void Check(const FileFacts& facts, Sink& sink) {
  ReportViolations(facts, Violation::Kind::kSkippedUpdate, sink, [](const Violation& v) {
    return "This path goes round step() and update() after unscale_(" + v.optimizer +
           "): the next unscale_() raises RuntimeError.";
  });
}

}  // namespace mpnanny::check::unscale_without_update_path
