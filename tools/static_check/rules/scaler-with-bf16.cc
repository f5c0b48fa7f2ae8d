#include "tools/static_check/rule_support.h"

namespace mpnanny::static_check::scaler_with_bf16 {

void Check(const FileFacts& facts, Sink& sink) {
  int bf16 = 0;
  for (const Autocast& autocast : facts.regions.all()) {
    if (autocast.enabled == Tri::kNo) continue;
    if (autocast.foreign || autocast.dtype != HalfType::kBf16) return;
    ++bf16;
  }
  if (bf16 == 0 || !facts.scalers.Has(ScalerCall::Op::kScale)) return;
  for (const ScalerMade& made : facts.scalers.made()) {
    if (!made.enabled_given) sink.Add(made.call);
  }
}

}  // namespace mpnanny::static_check::scaler_with_bf16
