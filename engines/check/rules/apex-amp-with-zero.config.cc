#include "engines/check/rule_support.h"

namespace mpnanny::check::apex_amp_with_zero {

void CheckSettings(const Settings& settings, Sink& sink) {
  if (!settings.IsOn(Option::kApexAmp) || settings.Number(Option::kZeroStage).value_or(0) < 1)
    return;
  sink.Add(*settings.Find(Option::kApexAmp),
           "amp is on together with ZeRO stage " + settings.Find(Option::kZeroStage)->text + ".");
}

}  // namespace mpnanny::check::apex_amp_with_zero
