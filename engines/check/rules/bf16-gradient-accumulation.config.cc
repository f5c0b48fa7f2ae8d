#include "engines/check/rule_support.h"

namespace mpnanny::check::bf16_gradient_accumulation {

void CheckSettings(const Settings& settings, Sink& sink) {
  const Setting* summed = settings.Find(Option::kSummedAs);
  if (summed == nullptr || (summed->text != "bf16" && summed->text != "bfloat16") ||
      settings.IsOff(Option::kBf16))
    return;
  // One micro-batch a step, which is the default, has nothing to add up.
  const Setting* batches = settings.Find(Option::kMicroBatches);
  if (batches == nullptr || batches->number.value_or(2) <= 1) return;
  RawFinding& finding = sink.Add(
      *summed, batches->number ? "Gradients of " + ShowNumber(*batches->number) +
                                     " micro-batches are added up in BF16."
                               : std::string("Gradients of micro-batches are added up in BF16."));
  // Of a sum of 16 the next gradient loses half its bits; of fewer it is somebody's choice.
  finding.guess = batches->number.value_or(0) < 16;
  ReplaceValue(*summed, "\"fp32\"", finding);
}

}  // namespace mpnanny::check::bf16_gradient_accumulation
