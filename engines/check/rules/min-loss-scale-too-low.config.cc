#include "engines/check/rule_support.h"

namespace mpnanny::check::min_loss_scale_too_low {

void CheckSettings(const Settings& settings, Sink& sink) {
  const Setting* floor = settings.Find(Option::kMinScale);
  // fairseq scales the sum over all tokens of a batch, up to a million, where others scale a mean.
  const double lowest =
      settings.framework == Framework::kFairseq ? kLowestMinScale / 1e6 : kLowestMinScale;
  if (floor == nullptr || !floor->number || *floor->number < 0 || *floor->number >= lowest ||
      !settings.MayBeFp16())
    return;
  if (settings.Number(Option::kLossScale).value_or(0) > 0) return;  // a static scale has no floor
  RawFinding& finding =
      sink.Add(*floor, "The loss scale may fall to " + ShowNumber(*floor->number) +
                           ": a run that has diverged goes on and trains nothing.");
  ReplaceValue(*floor, settings.framework == Framework::kFairseq ? "0.0001" : "1", finding);
}

}  // namespace mpnanny::check::min_loss_scale_too_low
