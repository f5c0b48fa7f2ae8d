#include <algorithm>
#include <cmath>

#include "tools/diagnose_run/detectors/detector.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

// A running mean or variance moves by a tenth of the batch's at a time (momentum 0.1): a factor of
// hundred between samples is a batch thousands of times out of the ordinary.
constexpr double kPoisoned = 100;

bool IsRunning(const std::string& name) {
  return NameHas(name, {"running_mean", "running_var", "running_std"});
}

const SeenAlert* FirstBufferAlert(const Facts& facts) {
  for (const SeenAlert& alert : facts.alerts) {
    if ((alert.row.type == "NAN" || alert.row.type == "INF") && IsRunning(alert.layer)) {
      return &alert;
    }
  }
  return nullptr;
}

}  // namespace

// Skipping the step keeps the weights clean; the statistics were written in the forward pass.
void DetectPoisonedBuffer(const Facts& facts, std::vector<Claim>& claims) {
  Claim claim;
  claim.id = "poisoned-buffer";
  claim.strength = 1;
  claim.fault = true;
  if (const SeenAlert* alert = FirstBufferAlert(facts)) {
    claim.sentence = "The running statistic " + runs::Name(alert->layer) +
                     " is not finite at step " + std::to_string(alert->row.step) +
                     ": a forward pass wrote it, and the scaler that skips the step does not undo "
                     "that. Evaluation uses it.";
    claim.stays = true;
    claim.place = FaultPlace{alert->row.step, "forward", alert->layer,
                             "buffer",        "",        "a running statistic that is not finite"};
    if (facts.onset) claim.place->step = std::min(claim.place->step, facts.onset->step);
    claims.push_back(std::move(claim));
    return;
  }
  for (const Series& series : facts.profile.series) {
    if (series.kind != runs::kWeight || !IsRunning(series.layer)) continue;
    for (size_t i = 0; i < series.points.size(); ++i) {
      const Measured& now = series.points[i];
      const bool bad = now.nonfinite > 0;
      claim.stays = bad;
      const bool thrown = i > 0 && now.absmax && series.points[i - 1].absmax &&
                          *now.absmax > kPoisoned * std::max(1.0, *series.points[i - 1].absmax);
      if (!bad && !thrown) continue;
      claim.sentence = "The running statistic " + runs::Name(series.layer) +
                       (bad ? " is not finite"
                            : " was thrown from " + runs::Number(series.points[i - 1].absmax) +
                                  " to " + runs::Number(now.absmax)) +
                       " at step " + std::to_string(now.step) + ".";
      claim.place = PlaceOf(series, now.step, "forward", "a running statistic thrown off");
      claims.push_back(std::move(claim));
      return;
    }
  }
}

}  // namespace mpnanny::diagnose_run
