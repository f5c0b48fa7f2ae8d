#include "tools/diagnose_run/detectors/detector.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {

void DetectGradientOverflow(const Facts& facts, std::vector<Claim>& claims) {
  if (!facts.onset || facts.onset->phase != "backward") return;
  const Onset& onset = *facts.onset;
  Claim claim;
  claim.id = "gradient-overflow";
  claim.sentence = "The forward pass and the loss are finite at step " +
                   std::to_string(onset.step) + " and gradients are not: " + onset.what.English() + "; " +
                   runs::Count(facts.summary.nonfinite_gradient_steps, "step") +
                   " of the run have such gradients";
  if (facts.summary.scale_last) {
    claim.sentence += ", the loss scale went from " + runs::Number(facts.summary.scale_first) +
                      " to " + runs::Number(facts.summary.scale_last);
  }
  claim.sentence += ".";
  claim.strength = 0.7;
  claim.favours = {"component:scaler", "component:gradient-clipping", "category:loss-scale-decline",
                   "category:loss-scale-collapse"};
  claim.opposes = {"component:ffn", "component:residual", "component:data"};
  claims.push_back(std::move(claim));
  return;
}

}  // namespace mpnanny::diagnose_run
