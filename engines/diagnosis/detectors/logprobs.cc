// Trainer and rollout engine that do not agree, as engines/mismatch/ judged the calls of
// log_mismatch.
#include "engines/diagnosis/detectors/detector.h"
#include "engines/mismatch/words.h"

namespace mpnanny::diagnosis {

void DetectLogprobs(const Facts& facts, std::vector<Claim>& claims) {
  using mismatch::Agreement;
  using mismatch::Shape;
  const Agreement agreement = facts.mismatch.agreement;
  const Shape shape = facts.mismatch.finding.shape;
  if (agreement == Agreement::kNotEstablished || agreement == Agreement::kAgree) return;
  const mismatch::Words words = mismatch::WordsOf(facts.mismatch, facts.logprobs);
  Claim claim;
  claim.id = "logprob-mismatch";
  claim.ground = Ground::kMeasured;
  claim.strength = 1;
  claim.in_loop = true;
  // Rounding of the head alone, as small as it is then, makes no run a broken one.
  const mismatch::Finding& finding = facts.mismatch.finding;
  const bool rounding = shape == Shape::kStored || shape == Shape::kRareTokens ||
                        (shape == Shape::kHead && !finding.way.empty() && finding.value == 0);
  claim.fault = agreement == Agreement::kBroken || !rounding;
  claim.note = !claim.fault;
  claim.sentence = words.measured;
  const mismatch::Call& shown = facts.logprobs[facts.mismatch.shown];
  claim.sentence += mismatch::SizeOf(shown);
  claim.title = words.title;
  claim.fix = words.fix;
  claim.place = FaultPlace{shown.step, Phase::kLoss, "", "", "", words.title};
  claims.push_back(std::move(claim));
}

}  // namespace mpnanny::diagnosis
