#include <algorithm>

#include "base/layer_word.h"
#include "base/text.h"
#include "tools/diagnose_run/detectors/detector.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

constexpr int64_t kNextSteps = 2;

bool IsOptimizerKind(const std::optional<int64_t>& kind) {
  return kind == runs::kWeight || kind == runs::kUpdate || kind == runs::kOptimizerState;
}

// Weights and gradient were finite, and a state that is made of gradients alone is not: it came in
// so.
void AddBadState(const Facts& facts, std::vector<Claim>& claims) {
  const Onset& onset = *facts.onset;
  const std::string states = EscapeControl(Join(facts.bad_states, ", "), 200);
  const auto& optimizers = facts.protocol.optimizers;
  const bool with_state = !optimizers.empty() && optimizers.front().with_state > 0;
  const bool loaded = std::any_of(
      facts.protocol.loads.begin(), facts.protocol.loads.end(),
      [&](const LoadSeen& load) { return load.what == "optimizer" && load.step <= onset.step; });
  Claim claim;
  claim.id = "state-not-finite";
  claim.sentence =
      "The optimizer's state " + states + " of " + LayerWord(runs::Name(onset.layer)) +
      " holds NaN after step " + std::to_string(onset.step) +
      ", while the weights and the gradient were finite before it: sums and products of "
      "finite numbers make no NaN, so that the state held it before.";
  if (with_state || loaded) {
    claim.sentence += " It came with the state that the optimizer had when " +
                      std::string(loaded ? "it was loaded." : "this run began.");
  }
  claim.strength = 0.9;
  claim.favours = {"component:checkpoint"};
  claim.title =
      "The optimizer's state " + states + " was not finite before the first step that used it";
  claim.fix =
      "Look into the checkpoint that it was loaded from (`mpnanny analyze FILE` names the tensors "
      "that "
      "are not finite) and at what saved it: a copy to the host that was still under way, a state "
      "of "
      "memory that nothing was written into. Resume from an earlier one, or reset the moments.";
  claim.place = FaultPlace{onset.step,   "optimizer",
                           onset.layer,  onset.layer_type,
                           onset.source, "a state of the optimizer that was not finite before"};
  claims.push_back(std::move(claim));
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
    claim.sentence = "Weights or optimizer state are the first that is not finite, at step " +
                     std::to_string(onset.step) + ": " + onset.what.English();
    if (made && !facts.bad_states.empty()) {
      AddBadState(facts, claims);
      return;
    }
    // Which division it was, only a comparison shows.
    claim.sentence +=
        made ? ". Weights and gradient were finite before the optimizer's step: its own "
               "arithmetic made them, as a division by a second moment and eps that are 0 "
               "does, or a state of it was not finite before."
             : ". The optimizer's step before made it.";
    claim.strength = state ? 1 : 0.7;
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
