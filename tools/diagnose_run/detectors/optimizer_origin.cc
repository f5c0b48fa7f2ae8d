#include <algorithm>

#include "tools/diagnose_run/detectors/detector.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

constexpr int64_t kNextSteps = 2;

bool IsOptimizerKind(const std::optional<int64_t>& kind) {
  return kind == runs::kWeight || kind == runs::kUpdate || kind == runs::kOptimizerState;
}

}  // namespace

void DetectOptimizerOrigin(const Facts& facts, std::vector<Claim>& claims) {
  const Series* state = nullptr;
  for (const Series& series : facts.profile.series) {
    if (series.kind == runs::kOptimizerState && IsHalf(series.dtype)) {
      state = &series;
      break;
    }
  }
  if (state) {
    Claim claim;
    claim.id = "half-optimizer-state";
    claim.sentence = "The optimizer keeps its state in float16 (" + runs::Name(state->layer) +
                     "): squares of gradients under 2.4e-4 are 0 there, and so is an eps of 1e-8.";
    claim.strength = 1;
    claims.push_back(std::move(claim));
  }
  if (!facts.onset) return;
  const Onset& onset = *facts.onset;
  if (onset.phase == "optimizer" && IsOptimizerKind(onset.kind) && onset.layer_type != "buffer") {
    Claim claim;
    claim.id = "optimizer-division";
    const bool made = onset.detail.finite_before;
    claim.sentence =
        "Weights or optimizer state are the first that is not finite, at step " +
        std::to_string(onset.step) + ": " + onset.what +
        (made ? ". Weights and gradient were finite before the optimizer's step: its own "
                "arithmetic made them, a division by a second moment and eps that are 0."
              : ". The optimizer's step before made it.");
    claim.strength = made || state ? 1 : 0.7;
    claim.favours = {"component:optimizer", "component:weights"};
    claim.opposes = {"!component:optimizer"};
    claims.push_back(std::move(claim));
    return;
  }
  if (onset.phase != "backward" || IsScaled(facts)) return;
  const auto weights =
      std::find_if(facts.alerts.begin(), facts.alerts.end(), [&](const SeenAlert& alert) {
        return alert.row.phase == "optimizer" && alert.row.severity == "ERROR" &&
               (alert.row.type == "NAN" || alert.row.type == "INF") &&
               alert.row.step >= onset.step && alert.row.step <= onset.step + kNextSteps;
      });
  if (weights == facts.alerts.end()) return;
  Claim claim;
  claim.id = "unchecked-gradient";
  claim.sentence = "The gradient of step " + std::to_string(onset.step) +
                   " was not finite and was applied all the same: at step " +
                   std::to_string(weights->row.step) + " the weights of " +
                   runs::Name(weights->layer) +
                   " are not finite. Without a GradScaler nobody looks before the step.";
  claim.strength = 1;
  claims.push_back(std::move(claim));
}

}  // namespace mpnanny::diagnose_run
