#include "engines/check/rule_support.h"

namespace mpnanny::check::fp16_and_bf16 {

void CheckSettings(const Settings& settings, Sink& sink) {
  if (!settings.IsOn(Option::kFp16) || !settings.IsOn(Option::kBf16)) return;
  const Setting* fp16 = settings.Find(Option::kFp16);
  const Setting* bf16 = settings.Find(Option::kBf16);
  const Setting* later = fp16->where.begin < bf16->where.begin ? bf16 : fp16;
  sink.Add(*later, "Both " + fp16->name + " and " + bf16->name + " are on; " +
                       FrameworkName(settings.framework) + " takes one of them.");
}

}  // namespace mpnanny::check::fp16_and_bf16
