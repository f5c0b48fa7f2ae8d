#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {

void DetectGradientOverflow(const Facts& facts, std::vector<Claim>& claims) {
  if (!facts.onset || facts.onset->phase != Phase::kBackward) return;
  const Onset& onset = *facts.onset;
  Claim claim;
  claim.id = "gradient-overflow";
  claim.sentence = {
      runs::Form("The forward pass and the loss are finite at step {0} and gradients are not: {1}; "
                 "{2:step} of the run have such gradients{3}.",
                 "在第 {0} 步，前向传播和损失都是有限的，而梯度不是：{1}；"
                 "整个训练有 {2} 步出现这样的梯度{3}。"),
      {onset.step, onset.what, facts.summary.nonfinite_gradient_steps,
       facts.summary.scale_last
           ? runs::Sentence(
                 runs::Form(", the loss scale went from {0} to {1}", "，损失缩放从 {0} 变为 {1}"),
                 {runs::Number(facts.summary.scale_first), runs::Number(facts.summary.scale_last)})
           : runs::Sentence()}};
  claim.strength = 0.7;
  claim.favours = {"component:scaler", "component:gradient-clipping", "category:loss-scale-decline",
                   "category:loss-scale-collapse"};
  claim.opposes = {"component:ffn", "component:residual", "component:data"};
  claims.push_back(std::move(claim));
  return;
}

}  // namespace mpnanny::diagnosis
