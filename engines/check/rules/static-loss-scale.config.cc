#include "engines/check/rule_support.h"

namespace mpnanny::check::static_loss_scale {

void CheckSettings(const Settings& settings, Sink& sink) {
  const Setting* scale = settings.Find(Option::kLossScale);
  // DeepSpeed takes 0 for "dynamic"; what is computed or "dynamic" has no number.
  if (scale == nullptr || scale->number.value_or(0) <= 0 || !settings.MayBeFp16()) return;
  RawFinding& finding = sink.Add(*scale, std::string(FrameworkName(settings.framework)) +
                                             " keeps the loss scale at " +
                                             ShowNumber(*scale->number) + " for the whole run.");
  if (settings.framework == Framework::kDeepSpeed) ReplaceValue(*scale, "0", finding);
}

}  // namespace mpnanny::check::static_loss_scale
