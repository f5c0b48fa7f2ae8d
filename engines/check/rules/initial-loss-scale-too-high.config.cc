#include "engines/check/rule_support.h"

namespace mpnanny::check::initial_loss_scale_too_high {

void CheckSettings(const Settings& settings, Sink& sink) {
  const Setting* scale = settings.Find(Option::kInitialScale);
  if (scale == nullptr || scale->number.value_or(0) <= kHighestInitialScale ||
      !settings.MayBeFp16())
    return;
  if (settings.Number(Option::kLossScale).value_or(0) > 0) return;  // a static scale starts nowhere
  const bool power = settings.framework == Framework::kDeepSpeed;
  RawFinding& finding = sink.Add(*scale, "The loss scale starts at " + ShowNumber(*scale->number) +
                                             (power ? " (2^" + scale->text + ")" : "") +
                                             " and is halved once for every step that is lost.");
  ReplaceValue(*scale, power ? "16" : "65536", finding);
}

}  // namespace mpnanny::check::initial_loss_scale_too_high
