#include "engines/check/rule_support.h"

namespace mpnanny::check::fp16_on_cpu {

void CheckSettings(const Settings& settings, Sink& sink) {
  // Lightning says so and takes BF16 instead.
  if (settings.framework == Framework::kLightning) return;
  if (!settings.IsOn(Option::kFp16) || !settings.IsOn(Option::kCpu)) return;
  const Setting* fp16 = settings.Find(Option::kFp16);
  sink.Add(*fp16, fp16->name + " is on, and " + settings.Find(Option::kCpu)->name +
                      " keeps the training on the CPU.");
}

}  // namespace mpnanny::check::fp16_on_cpu
