// A wrong order of calls, as the monitor heard it.
#include <cmath>

#include "base/text.h"
#include "tools/diagnose_run/detectors/detector.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

// Of the steps with a norm, those whose scaled norm equals that of the step before: real gradients
// never do.
constexpr double kPinnedShare = 0.8;
constexpr int64_t kPinnedSteps = 15;
// Limits that people clip to; what is pinned to less than that is a limit divided by a scale.
constexpr double kLeastLimit = 0.01, kMostLimit = 1000;

Claim Fault(const char* id, int64_t step, const char* phase, std::string what,
            std::string sentence) {
  Claim claim;
  claim.id = id;
  claim.sentence = std::move(sentence);
  claim.strength = 1;
  claim.fault = claim.in_loop = true;
  claim.place = FaultPlace{step, phase, "", "", "", std::move(what)};
  return claim;
}

// Steps that are too small make nothing infinite in a forward pass.
void SayWhetherItMadeTheOnset(const Facts& facts, Claim& claim) {
  if (!facts.onset || facts.onset->phase != "forward" ||
      facts.onset->place != Onset::Place::kProducer) {
    return;
  }
  claim.sentence += " That is a fault of its own: it does not make " + facts.onset->what.English() + ".";
  claim.strength = 0.2;
  claim.in_loop = false;
}

void DetectScaledClip(const Facts& facts, std::vector<Claim>& claims) {
  // Past the scaler everything is scaled; that clipping came before it is the lesser fault.
  if (facts.protocol.direct_step) return;
  for (const ClipSeen& clip : facts.protocol.clips) {
    if (!clip.scaled) continue;
    const double scale = facts.summary.scale_first.value_or(1);
    claims.push_back(
        Fault("clipped-while-scaled", clip.step, "optimizer", "gradients clipped while scaled",
              "At step " + std::to_string(clip.step) +
                  " clip_grad_norm_ got gradients that were still multiplied by the loss scale (" +
                  runs::Number(scale) + "): with a norm limit of " + runs::Number(clip.max_norm) +
                  " the gradient that remains has a norm of " +
                  runs::Number(clip.max_norm.value_or(1) / scale) + " at most."));
    SayWhetherItMadeTheOnset(facts, claims.back());
    return;
  }
  // By hand: then the norm that is applied, times the scale, is the limit in step after step.
  const Turns& turns = facts.turns;
  if (IsScaled(facts) && turns.pinned_norms >= kPinnedSteps &&
      static_cast<double>(turns.pinned_norms) > kPinnedShare * static_cast<double>(turns.norms) &&
      turns.pinned_at && *turns.pinned_at >= kLeastLimit && *turns.pinned_at <= kMostLimit &&
      *turns.pinned_norm < kLeastLimit) {
    claims.push_back(Fault(
        "clipped-while-scaled", facts.summary.first_step.value_or(0), "optimizer",
        "gradients clipped while scaled",
        "The gradient norm times the loss scale is " + runs::Number(*turns.pinned_at) + " in " +
            runs::Count(turns.pinned_norms, "step") + " of " + std::to_string(turns.norms) +
            ": gradients were clipped to that norm while they were still scaled."));
  }
}

// Gradients that overflow are the price of a loss scale, which scaler.step() pays by leaving the step
// out.
void DetectUnguardedStep(const Facts& facts, std::vector<Claim>& claims) {
  const std::optional<int64_t>& first = facts.protocol.unguarded_step;
  if (!first || !facts.onset || facts.onset->phase != "backward") return;
  if (facts.onset->step < *first || facts.summary.skipped_steps > 0 || !facts.bad_at_end) return;
  const std::string step = std::to_string(facts.onset->step);
  claims.push_back(Fault("unguarded-step", facts.onset->step, "optimizer",
                         "an optimizer step on gradients that are not finite",
                         "Gradients were not finite at step " + step +
                             ", and the step was made all the same: optimizer.step() is called "
                             "itself from step " +
                             std::to_string(*first) +
                             " on, past the scaler. scaler.step(optimizer) would have left it out "
                             "and lowered the loss scale."));
}

}  // namespace

void DetectScalerProtocol(const Facts& facts, std::vector<Claim>& claims) {
  DetectScaledClip(facts, claims);
  DetectUnguardedStep(facts, claims);
  const Protocol& p = facts.protocol;
  if (p.direct_step) {
    claims.push_back(
        Fault("scaled-step", *p.direct_step, "optimizer",
              "an optimizer step on gradients that are still scaled",
              "At step " + std::to_string(*p.direct_step) +
                  " optimizer.step() was called past the scaler, on gradients that are " +
                  runs::Number(p.direct_scale) +
                  " times too large: neither unscaled nor checked for Inf."));
  }
  if (p.update_missing) {
    Claim claim = Fault("missing-update", *p.update_missing, "optimizer",
                        "scaler.step() without scaler.update()",
                        "Step " + std::to_string(*p.update_missing) +
                            " ended after scaler.step() without scaler.update(): the scale never "
                            "moves, and the next step() raises.");
    claims.push_back(std::move(claim));
  }
  if (p.gradients_replaced) {
    claims.push_back(
        Fault("gradients-replaced", *p.gradients_replaced, "backward",
              "gradients that are not finite, replaced before the step",
              "At step " + std::to_string(*p.gradients_replaced) +
                  " gradients were not finite after the backward pass and finite when the "
                  "optimizer used them: something replaced NaN or Inf (nan_to_num, a mask), and "
                  "the step went on with what was left."));
  }
}

}  // namespace mpnanny::diagnose_run
