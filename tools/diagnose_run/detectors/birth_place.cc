#include "tools/diagnose_run/detectors/detector.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {

std::optional<Claim> DetectBirthPlace(const Facts& facts) {
  if (!facts.onset || facts.onset->place == Onset::Place::kUnplaced) return std::nullopt;
  const Onset& onset = *facts.onset;
  const std::string at = " at step " + std::to_string(onset.step);
  Claim claim;
  claim.id = "birth_place";
  if (onset.phase == "data") {
    claim.sentence = "The batch itself is not finite" + at + ": " + onset.what + " (" + onset.how +
                     "). What the model computes from it says nothing about precision.";
    claim.strength = 1;
    claim.favours = {"component:data"};
    claim.opposes = {"!component:data"};
    return claim;
  }
  if (onset.phase == "loss" && onset.place == Onset::Place::kProducer) {
    claim.sentence = "Born in the loss" + at + ": " + onset.how + ".";
    claim.favours = {"component:loss"};
    // A loss that ran away in finite numbers overflows in the end; where that happens says nothing
    // then.
    const auto divergence = DetectDivergence(facts);
    claim.strength = divergence ? 0.2 : 0.8;
    if (!divergence) claim.opposes = {"!component:loss"};
    return claim;
  }
  if (onset.phase == "optimizer" && (onset.kind == runs::kWeight || onset.kind == runs::kUpdate ||
                                     onset.kind == runs::kOptimizerState)) {
    claim.sentence = "Weights or optimizer state are the first that is not finite" + at + ": " +
                     onset.what + ". The optimizer's step before made it.";
    claim.strength = 0.8;
    claim.favours = {"component:optimizer", "component:weights"};
    claim.opposes = {"!component:optimizer"};
    return claim;
  }
  return std::nullopt;
}

}  // namespace mpnanny::diagnose_run
