#include "engines/check/rule_support.h"

namespace mpnanny::check::grad_access_before_unscale {

void Check(const FileFacts& facts, Sink& sink) {
  ReportViolations(facts, Violation::Kind::kGradientsRead, sink, [&](const Violation& v) {
    const std::string what = v.node == v.inner ? "These gradients still carry"
                                               : "This call uses gradients that still carry";
    return what + " the loss scale: there is no " + v.scaler +
           ".unscale_(optimizer) between the backward pass and this line.";
  });
}

}  // namespace mpnanny::check::grad_access_before_unscale
