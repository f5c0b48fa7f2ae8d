#include <cmath>

#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Sentence;

constexpr int64_t kRateShows = 50;  // steps in which a rate that is too high shows

}  // namespace

void DetectLrJump(const Facts& facts, std::vector<Claim>& claims) {
  for (const Jump& jump : facts.turns.lr_jumps) {
    // Another optimizer has a rate of its own, and its phase a loss of its own.
    if (BeginsPhase(facts.loop, jump.step)) continue;
    Sentence followed;
    for (const Spike& spike : facts.turns.spikes) {
      if (spike.step >= jump.step && spike.step <= jump.step + kRateShows) {
        followed = {Form("the loss went from about {0} to {1}", "损失从约 {0} 变为 {1}"),
                    {runs::Number(spike.median), runs::Number(spike.greatest)}};
        break;
      }
    }
    if (followed.empty() && facts.onset && facts.onset->step >= jump.step &&
        facts.onset->step <= jump.step + kRateShows) {
      followed = {Form("at step {0} there is {1}", "第 {0} 步{1}"),
                  {facts.onset->step, facts.onset->what}};
    }
    if (followed.empty()) continue;
    Claim claim;
    claim.id = "lr-jump";
    claim.ground = Ground::kMeasured;
    claim.sentence = {
        Form("The learning rate jumped from {0} (its greatest until then) to {1} at step {2}, and "
             "{3}: the schedule did it, not precision.",
             "学习率在第 {2} 步从 {0}（此前的最大值）跳到 {1}，随后{3}："
             "是学习率调度造成的，不是精度问题。"),
        {runs::Number(jump.from), runs::Number(jump.to), jump.step, std::move(followed)}};
    claim.strength = 1;
    claim.fault = true;
    claim.opposes = {"!component:learning-rate"};
    claim.place = FaultPlace{jump.step, Phase::kOptimizer,
                             "",        "",
                             "",        Form("a jump of the learning rate", "学习率的跳变")};
    claims.push_back(std::move(claim));
    return;
  }
}

}  // namespace mpnanny::diagnosis
