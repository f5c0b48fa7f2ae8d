#include "engines/check/rule_support.h"

namespace mpnanny::check::loss_scale_window_too_short {

void CheckSettings(const Settings& settings, Sink& sink) {
  const Setting* window = settings.Find(Option::kScaleWindow);
  if (window == nullptr || !window->number || *window->number < 1 ||
      *window->number > kShortestScaleWindow || !settings.MayBeFp16())
    return;
  if (settings.Number(Option::kLossScale).value_or(0) > 0) return;  // a static scale has no window
  RawFinding& finding =
      sink.Add(*window, "The loss scale is doubled after every " + ShowNumber(*window->number) +
                            " steps without overflow, so that one step in " +
                            ShowNumber(*window->number + 1) + " is lost.");
  ReplaceValue(*window, "1000", finding);
}

}  // namespace mpnanny::check::loss_scale_window_too_short
