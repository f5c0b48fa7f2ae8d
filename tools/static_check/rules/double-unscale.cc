#include "tools/static_check/rule_support.h"

namespace mpnanny::static_check::double_unscale {

void Check(const FileFacts& facts, Sink& sink) {
  ReportViolations(facts, Violation::Kind::kDoubleUnscale, sink, [](const Violation& v) {
    return "unscale_(" + v.optimizer +
           ") can be reached again before update(): the second call raises RuntimeError.";
  });
  ReportViolations(facts, Violation::Kind::kUnscaleAfterStep, sink, [](const Violation& v) {
    return "unscale_(" + v.optimizer +
           ") comes after step(), which has unscaled already: it raises RuntimeError.";
  });
  ReportViolations(facts, Violation::Kind::kUnscaledTwice, sink, [](const Violation& v) {
    return "unscale_(" + v.optimizer +
           ") can be reached again with gradients of before still there: those of the earlier "
           "backward passes are divided by the loss scale a second time.";
  });
}

}  // namespace mpnanny::static_check::double_unscale
