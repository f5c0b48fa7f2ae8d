#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {

void DetectOriginPlace(const Facts& facts, std::vector<Claim>& claims) {
  if (!facts.onset || facts.onset->place == Onset::Place::kUnplaced) return;
  const Onset& onset = *facts.onset;
  Claim claim;
  if (onset.phase == Phase::kData) {
    claim.id = "data-not-finite";
    claim.ground = Ground::kMeasured;
    claim.sentence = {runs::Form("The batch itself is not finite at step {0}: {1} ({2}). What the "
                                 "model computes from it says nothing about precision.",
                                 "第 {0} 步的批次本身非有限：{1}（{2}）。"
                                 "模型由它算出的结果与精度无关。"),
                      {onset.step, onset.what, onset.how}};
    const std::string batch = runs::BatchText(onset.detail, onset.step);
    if (!batch.empty()) {
      claim.sentence += runs::Sentence(runs::Form("The {0}.", "批次：{0}。"), {batch});
    }
    claim.strength = 1;
    claim.favours = {"component:data"};
    claim.opposes = {"!component:data"};
    claims.push_back(std::move(claim));
    return;
  }
  if (onset.phase == Phase::kLoss && onset.place == Onset::Place::kProducer) {
    claim.id = "loss-born-nan";
    claim.sentence = {
        runs::Form("Made in the loss at step {0}: {1}.", "第 {0} 步在损失中产生：{1}。"),
        {onset.step, onset.how}};
    claim.favours = {"component:loss"};
    // A loss that ran away in finite numbers overflows in the end; where that happens says nothing
    // then.
    const Divergence found = FindDivergence(facts);
    const bool divergence = found.loss || found.norm;
    claim.strength = divergence ? 0.2 : 0.8;
    if (!divergence) claim.opposes = {"!component:loss"};
    claims.push_back(std::move(claim));
    return;
  }
}

}  // namespace mpnanny::diagnosis
