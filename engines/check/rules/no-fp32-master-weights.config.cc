#include "engines/check/rule_support.h"

namespace mpnanny::check::no_fp32_master_weights {

void CheckSettings(const Settings& settings, Sink& sink) {
  const Setting* half = settings.Find(Option::kHalfMaster);
  // Lightning's is often meant, for fine-tuning.
  if (half == nullptr || half->on != true || settings.framework == Framework::kLightning) return;
  const bool bf16 = half->name.find("bf16") != std::string::npos;
  if (settings.IsOff(bf16 ? Option::kBf16 : Option::kFp16)) return;
  sink.Add(*half, half->name + ": weights are kept and updated in " + (bf16 ? "BF16" : "FP16") +
                      ", without a copy in FP32.");
}

}  // namespace mpnanny::check::no_fp32_master_weights
