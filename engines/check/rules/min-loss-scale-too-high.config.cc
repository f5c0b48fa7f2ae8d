#include "engines/check/rule_support.h"

namespace mpnanny::check::min_loss_scale_too_high {

void CheckSettings(const Settings& settings, Sink& sink) {
  const Setting* floor = settings.Find(Option::kMinScale);
  if (floor == nullptr || floor->number.value_or(0) < kHighestMinScale || !settings.MayBeFp16())
    return;
  if (settings.Number(Option::kLossScale).value_or(0) > 0) return;  // a static scale has no floor
  const char* then = settings.framework == Framework::kMegatron
                         ? "every step that needs less is lost"
                         : "the first overflow at that scale ends the run";
  RawFinding& finding = sink.Add(*floor, "The loss scale may not fall below " +
                                             ShowNumber(*floor->number) + ": " + then + ".");
  ReplaceValue(*floor, settings.framework == Framework::kFairseq ? "0.0001" : "1", finding);
}

}  // namespace mpnanny::check::min_loss_scale_too_high
