#include <algorithm>
#include <cmath>

#include "tools/diagnose_run/detectors/detector.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

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
  for (const OptimizerSeen& optimizer : facts.protocol.optimizers) {
    const bool fresh = optimizer.with_state == 0;
    const bool resumed_run = optimizer.step == begin && (facts.parent || begin > 0);
    // In one process: another optimizer takes over, after steps of the first.
    const bool within = optimizer.step > begin && &optimizer != &facts.protocol.optimizers.front();
    if (!fresh || (!resumed_run && !within)) continue;
    const Spike* spike = SpikeAfter(facts, optimizer.step);
    const bool loaded = std::any_of(facts.protocol.loads.begin(), facts.protocol.loads.end(),
                                    [&](const LoadSeen& load) {
                                      return load.what == "model" && load.step <= optimizer.step &&
                                             load.step + kSoon >= optimizer.step;
                                    });
    const bool rose = facts.parent && facts.parent->last_loss && facts.summary.loss_start &&
                      *facts.summary.loss_start > 1.3 * std::fabs(*facts.parent->last_loss);
    if (!spike && !loaded && !rose) continue;
    Claim claim;
    claim.id = "optimizer-restarted";
    claim.sentence = "At step " + std::to_string(optimizer.step) + " " +
                     (optimizer.kind.empty() ? "an optimizer" : runs::Name(optimizer.kind)) +
                     " began without state" +
                     (loaded ? ", after the model's weights had been loaded" : "") +
                     (resumed_run ? ", where the run goes on from an earlier one" : "");
    if (spike) {
      claim.sentence += ", and the loss went from about " + runs::Number(spike->median) + " to " +
                        runs::Number(spike->greatest) + " at step " + std::to_string(spike->step);
    } else if (rose) {
      claim.sentence += ", and the loss is " + runs::Number(facts.summary.loss_start) + " after " +
                        runs::Number(facts.parent->last_loss);
    }
    claim.sentence +=
        ": moments and step count were not carried over, so the first steps have full size.";
    claim.strength = spike || rose ? 1 : KeepsState(optimizer.kind) ? 0.7 : 0.4;
    claim.fault = spike || rose || KeepsState(optimizer.kind);
    claim.place =
        FaultPlace{optimizer.step, "optimizer", "", "", "", "an optimizer without its state"};
    claims.push_back(std::move(claim));
    return;
  }
}

}  // namespace mpnanny::diagnose_run
