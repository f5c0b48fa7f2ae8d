#include "tools/static_check/rule_support.h"

namespace mpnanny::static_check::clip_before_unscale {

void Check(const FileFacts& facts, Sink& sink) {
  ReportViolations(
      facts, Violation::Kind::kClipScaled, sink,
      [](const Violation& v) {
        return "Gradients are clipped while they still carry the loss scale: there is no " +
               v.scaler + ".unscale_(optimizer) between the backward pass and this call.";
      },
      [&](const Violation& v, RawFinding& finding) {
        std::string optimizer;
        for (const ScalerCall& call : facts.scalers.calls()) {
          if (call.op != ScalerCall::Op::kStep || call.scaler != v.scaler) continue;
          if (!optimizer.empty() && optimizer != call.optimizer)
            return;  // which one is meant is not known
          optimizer = call.optimizer;
        }
        if (!optimizer.empty())
          InsertLineBefore(facts, v.node, v.scaler + ".unscale_(" + optimizer + ")", finding);
      });
  ReportViolations(facts, Violation::Kind::kClipAfterStep, sink, [](const Violation& v) {
    return "Gradients are clipped after " + v.scaler +
           ".step() has used them: the clipping changes nothing.";
  });
}

}  // namespace mpnanny::static_check::clip_before_unscale
