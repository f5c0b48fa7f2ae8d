#include <algorithm>

#include "tools/diagnose_run/detectors/detector.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {

std::optional<Claim> DetectVanishing(const Facts& facts) {
  // Non-finite values are another story; what vanished beside them is told by the alerts.
  if (facts.onset) return std::nullopt;
  const SeenAlert* gradient = nullptr;
  const SeenAlert* stale = nullptr;
  int64_t seen = 0;
  for (const SeenAlert& alert : facts.alerts) {
    const std::string& type = alert.row.type;
    if (type == "STALE_UPDATE" && !stale) stale = &alert;
    const bool backward = type == "GRAD_VANISH" || type == "DEAD_LAYER" ||
                          (type == "UNDERFLOW" && alert.row.phase == "backward");
    if (backward) seen += std::max<int64_t>(1, alert.row.repeats);
    if (backward && !gradient) gradient = &alert;
  }
  if (!gradient && !stale) return std::nullopt;
  const SeenAlert& first = stale ? *stale : *gradient;
  Claim claim;
  claim.id = "vanishing";
  claim.sentence = std::string(stale ? "Updates are too small to change the weights"
                                     : "Gradients are lost before they reach the weights") +
                   ": " + runs::Name(first.row.type) + " from step " +
                   std::to_string(first.row.step) +
                   (first.layer.empty() ? "" : " at " + runs::Name(first.layer)) +
                   (first.row.value ? " (" + runs::Number(first.row.value) + ")" : "") +
                   (stale ? "" : ", seen " + std::to_string(seen) + " times") + ".";
  claim.strength = 0.6;
  claim.favours = {stale ? "category:stale-update" : "category:grad-vanish"};
  claim.opposes = {"category:nan-inf", "category:loss-scale-collapse"};
  return claim;
}

}  // namespace mpnanny::diagnose_run
