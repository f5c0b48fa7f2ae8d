#include "engines/check/rule_support.h"

namespace mpnanny::check::loss_scale_window_longer_than_run {

void CheckSettings(const Settings& settings, Sink& sink) {
  const Setting* window = settings.Find(Option::kScaleWindow);
  const double run = settings.Number(Option::kRunSteps).value_or(0);
  if (window == nullptr || !window->number || run < 1 || *window->number < run ||
      !settings.MayBeFp16())
    return;
  if (settings.Number(Option::kLossScale).value_or(0) > 0) return;  // a static scale has no window
  sink.Add(*window, "The run has " + ShowNumber(run) +
                        " steps, and the loss scale may grow after " + ShowNumber(*window->number) +
                        ": it only ever falls.");
}

}  // namespace mpnanny::check::loss_scale_window_longer_than_run
