#include <algorithm>
#include <cmath>

#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Sentence;

constexpr int64_t kSoon = 30;  // steps in which an optimizer without its moments does its harm

bool KeepsState(const std::string& kind) { return kind != "SGD" && !kind.empty(); }

const Spike* SpikeAfter(const Facts& facts, int64_t step) {
  for (const Spike& spike : facts.turns.spikes) {
    if (spike.step >= step && spike.step <= step + kSoon) return &spike;
  }
  return nullptr;
}

}  // namespace

void DetectOptimizerRestart(const Facts& facts, std::vector<Claim>& claims) {
  if (!facts.summary.first_step || FindClaim(claims, "lr-jump")) return;
  const int64_t begin = *facts.summary.first_step;
  for (const OptimizerSeen& optimizer : facts.loop.optimizers) {
    const bool fresh = optimizer.with_state == 0;
    const bool resumed_run = optimizer.step == begin && (facts.parent || begin > 0);
    // In one process: another optimizer takes over, after steps of the first.
    const bool within = optimizer.step > begin && &optimizer != &facts.loop.optimizers.front();
    if (!fresh || (!resumed_run && !within)) continue;
    if (BeginsPhase(facts.loop, optimizer.step)) continue;
    const Spike* spike = SpikeAfter(facts, optimizer.step);
    const bool loaded =
        std::any_of(facts.loop.loads.begin(), facts.loop.loads.end(), [&](const LoadSeen& load) {
          return load.what == "model" && load.step <= optimizer.step &&
                 load.step + kSoon >= optimizer.step;
        });
    const bool rose = facts.parent && facts.parent->last_loss && facts.summary.loss_start &&
                      *facts.summary.loss_start > 1.3 * std::fabs(*facts.parent->last_loss);
    if (!spike && !loaded && !rose) continue;
    Claim claim;
    claim.id = "optimizer-restarted";
    Sentence jumped;
    if (spike) {
      jumped = {Form(", and the loss went from about {0} to {1} at step {2}",
                     "，损失从约 {0} 变为第 {2} 步的 {1}"),
                {runs::Number(spike->median), runs::Number(spike->greatest), spike->step}};
    } else if (rose) {
      jumped = {Form(", and the loss is {0} after {1}", "，损失由 {1} 变为 {0}"),
                {runs::Number(facts.summary.loss_start), runs::Number(facts.parent->last_loss)}};
    }
    claim.sentence = {
        Form("At step {0} {1} began without state{2}{3}{4}: moments and step count were not "
             "carried over, so the first steps have full size.",
             "在第 {0} 步，{1}在没有状态的情况下开始{2}{3}{4}："
             "动量与步数没有延续，因此最初几步的更新是完整大小的。"),
        {optimizer.step,
         optimizer.kind.empty()
             ? Sentence(Form("an optimizer", "优化器"))
             : Sentence::InEach(runs::Name(optimizer.kind), runs::Name(optimizer.kind) + " "),
         loaded ? Form(", after the model's weights had been loaded", "，此前模型的权重已被载入")
                : Sentence(),
         resumed_run ? Form(", where the run goes on from an earlier one", "，此处接续更早的训练")
                     : Sentence(),
         std::move(jumped)}};
    claim.strength = spike || rose ? 1 : KeepsState(optimizer.kind) ? 0.7 : 0.4;
    // In one process a new optimizer may as well be a new phase of the training.
    if (resumed_run && (spike || rose)) claim.ground = Ground::kMeasured;
    claim.fault = spike || rose || KeepsState(optimizer.kind);
    claim.place = FaultPlace{optimizer.step,
                             Phase::kOptimizer,
                             "",
                             "",
                             "",
                             Form("an optimizer without its state", "没有状态的优化器")};
    claims.push_back(std::move(claim));
    return;
  }
}

}  // namespace mpnanny::diagnosis
