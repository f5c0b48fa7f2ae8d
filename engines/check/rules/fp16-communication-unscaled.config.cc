#include "engines/check/rule_support.h"

namespace mpnanny::check::fp16_communication_unscaled {

void CheckSettings(const Settings& settings, Sink& sink) {
  const Setting* sent = settings.Find(Option::kSentAs);
  if (sent == nullptr || sent->text != "fp16") return;
  // With FP16 training the gradients are scaled, and FP16 already.
  if (!settings.IsOff(Option::kFp16)) return;
  const bool bf16 = settings.IsOn(Option::kBf16);
  RawFinding& finding =
      sink.Add(*sent, std::string("Gradients of ") + (bf16 ? "BF16" : "FP32") +
                          " training are cast to FP16 to be reduced, without a loss scale.");
  ReplaceValue(*sent, "\"fp32\"", finding);
}

}  // namespace mpnanny::check::fp16_communication_unscaled
