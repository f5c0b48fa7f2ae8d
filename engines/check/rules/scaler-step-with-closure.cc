#include <algorithm>

#include "engines/check/rule_support.h"

namespace mpnanny::check::scaler_step_with_closure {

void Check(const FileFacts& facts, Sink& sink) {
  for (const ScalerCall& call : facts.scalers.calls()) {
    const auto& made = facts.scalers.made();
    // Another class of scaler may take closures.
    const auto same = [&](const ScalerMade& one) { return one.key == call.scaler; };
    const bool torchs = std::any_of(made.begin(), made.end(), same) &&
                        std::none_of(made.begin(), made.end(), [&](const ScalerMade& one) {
                          return same(one) && one.enabled_given;
                        });
    if (call.op != ScalerCall::Op::kStep || !torchs) continue;
    if (facts.names.Argument(call.call, 1, "closure") != kNoNode) sink.Add(call.call);
  }
}

}  // namespace mpnanny::check::scaler_step_with_closure
