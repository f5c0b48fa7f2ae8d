#include <set>

#include "engines/check/rule_support.h"

namespace mpnanny::check::multiple_scalers {

void Check(const FileFacts& facts, Sink& sink) {
  // With several optimizers each may own the parameters of one loss.
  std::set<std::string> optimizers;
  for (const ScalerCall& call : facts.scalers.calls()) {
    if (!call.optimizer.empty()) optimizers.insert(call.optimizer);
  }
  if (optimizers.size() != 1) return;
  ReportViolations(facts, Violation::Kind::kMixedScales, sink, [](const Violation& v) {
    return "The gradients of " + v.optimizer +
           " are a sum over losses that two scalers have multiplied by their own scales.";
  });
}

}  // namespace mpnanny::check::multiple_scalers
