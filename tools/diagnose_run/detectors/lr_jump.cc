#include <cmath>

#include "tools/diagnose_run/detectors/detector.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

constexpr int64_t kRateShows = 50;  // steps in which a rate that is too high shows

}  // namespace

void DetectLrJump(const Facts& facts, std::vector<Claim>& claims) {
  for (const Jump& jump : facts.turns.lr_jumps) {
    std::string followed;
    for (const Spike& spike : facts.turns.spikes) {
      if (spike.step >= jump.step && spike.step <= jump.step + kRateShows) {
        followed = "the loss went from about " + runs::Number(spike.median) + " to " +
                   runs::Number(spike.greatest);
        break;
      }
    }
    if (followed.empty() && facts.onset && facts.onset->step >= jump.step &&
        facts.onset->step <= jump.step + kRateShows) {
      followed = "at step " + std::to_string(facts.onset->step) + " there is " + facts.onset->what.English();
    }
    if (followed.empty()) continue;
    Claim claim;
    claim.id = "lr-jump";
    claim.sentence = "The learning rate jumped from " + runs::Number(jump.from) +
                     " (its greatest until then) to " + runs::Number(jump.to) + " at step " +
                     std::to_string(jump.step) + ", and " + followed +
                     ": the schedule did it, not precision.";
    claim.strength = 1;
    claim.fault = true;
    claim.opposes = {"!component:learning-rate"};
    claim.place = FaultPlace{jump.step, "optimizer", "", "", "", "a jump of the learning rate"};
    claims.push_back(std::move(claim));
    return;
  }
}

}  // namespace mpnanny::diagnose_run
