// A wrong order of calls, as the monitor heard it.
#include <cmath>

#include "base/text.h"
#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Sentence;

// Of the steps with a norm, those whose scaled norm equals that of the step before: real gradients
// never do.
constexpr double kPinnedShare = 0.8;
constexpr int64_t kPinnedSteps = 15;
// Limits that people clip to; what is pinned to less than that is a limit divided by a scale.
constexpr double kLeastLimit = 0.01, kMostLimit = 1000;

Claim Fault(const char* id, int64_t step, Phase phase, Sentence what, Sentence sentence,
            const std::vector<std::string>& lines = {}) {
  Claim claim;
  claim.id = id;
  claim.ground = Ground::kMeasured;
  claim.sentence = std::move(sentence);
  claim.strength = 1;
  claim.fault = claim.in_loop = true;
  claim.place =
      FaultPlace{step, phase, "", "", lines.empty() ? "" : lines.front(), std::move(what)};
  claim.lines = lines;
  if (!lines.empty()) {
    claim.sentence += Sentence(Form("It is called at {0}.", "调用处：{0}。"),
                               {EscapeControl(Join(lines, ", "), 400)});
  }
  return claim;
}

// Steps that are too small make nothing infinite in a forward pass.
void SayWhetherItMadeTheOnset(const Facts& facts, Claim& claim) {
  if (!facts.onset || facts.onset->phase != Phase::kForward ||
      facts.onset->place != Onset::Place::kProducer) {
    return;
  }
  claim.sentence += Sentence(
      Form("That is a fault of its own: it does not make {0}.", "这是另一个故障：它不会造成{0}。"),
      {facts.onset->what});
  claim.strength = 0.2;
  claim.ground = Ground::kRecognised;
  claim.in_loop = false;
}

void DetectScaledClip(const Facts& facts, std::vector<Claim>& claims) {
  // Past the scaler everything is scaled; that clipping came before it is the lesser fault.
  if (facts.loop.direct_step) return;
  for (const ClipSeen& clip : facts.loop.clips) {
    if (!clip.scaled) continue;
    const double scale = facts.summary.scale_first.value_or(1);
    claims.push_back(Fault("clipped-while-scaled", clip.step, Phase::kOptimizer,
                           Form("gradients clipped while scaled", "仍带缩放时被裁剪的梯度"),
                           {Form("At step {0} clip_grad_norm_ got gradients that were still "
                                 "multiplied by the loss scale ({1}): with a norm limit of {2} the "
                                 "gradient that remains has a norm of {3} at most.",
                                 "在第 {0} 步，clip_grad_norm_ 得到的梯度仍乘有损失缩放（{1}）："
                                 "范数上限为 {2} 时，剩下的梯度范数最大只有 {3}。"),
                            {clip.step, runs::Number(scale), runs::Number(clip.max_norm),
                             runs::Number(clip.max_norm.value_or(1) / scale)}},
                           clip.lines));
    SayWhetherItMadeTheOnset(facts, claims.back());
    return;
  }
  // By hand: then the norm that is applied, times the scale, is the limit in step after step.
  const Turns& turns = facts.turns;
  if (IsScaled(facts) && turns.pinned_norms >= kPinnedSteps &&
      static_cast<double>(turns.pinned_norms) > kPinnedShare * static_cast<double>(turns.norms) &&
      turns.pinned_at && *turns.pinned_at >= kLeastLimit && *turns.pinned_at <= kMostLimit &&
      *turns.pinned_norm < kLeastLimit) {
    claims.push_back(
        Fault("clipped-while-scaled", facts.summary.first_step.value_or(0), Phase::kOptimizer,
              Form("gradients clipped while scaled", "仍带缩放时被裁剪的梯度"),
              {Form("The gradient norm times the loss scale is {0} in {1:step} of {2}: gradients "
                    "were clipped to that norm while they were still scaled.",
                    "{2} 步中有 {1} 步的梯度范数乘以损失缩放等于 {0}："
                    "梯度在仍带缩放时被裁剪到该范数。"),
               {runs::Number(*turns.pinned_at), turns.pinned_norms, turns.norms}}));
  }
}

// Gradients that overflow are the price of a loss scale, which scaler.step() pays by leaving the
// step out.
void DetectUnguardedStep(const Facts& facts, std::vector<Claim>& claims) {
  const std::optional<int64_t>& first = facts.loop.unguarded_step;
  if (!first || !facts.onset || facts.onset->phase != Phase::kBackward) return;
  if (facts.onset->step < *first || facts.summary.skipped_steps > 0 || !facts.bad_at_end) return;
  claims.push_back(
      Fault("unguarded-step", facts.onset->step, Phase::kOptimizer,
            Form("an optimizer step on gradients that are not finite", "对非有限梯度的优化器更新"),
            {Form("Gradients were not finite at step {0}, and the step was made all the same: "
                  "optimizer.step() is called itself from step {1} on, past the scaler. "
                  "scaler.step(optimizer) would have left it out and lowered the loss scale.",
                  "第 {0} 步的梯度非有限，却仍执行了更新："
                  "从第 {1} 步起绕过 scaler 直接调用 optimizer.step()。"
                  "scaler.step(optimizer) 会跳过该步并降低损失缩放。"),
             {facts.onset->step, *first}},
            facts.loop.unguarded_lines));
}

}  // namespace

void DetectScalerOrder(const Facts& facts, std::vector<Claim>& claims) {
  DetectScaledClip(facts, claims);
  DetectUnguardedStep(facts, claims);
  const LoopCalls& p = facts.loop;
  if (p.direct_step) {
    claims.push_back(
        Fault("scaled-step", *p.direct_step, Phase::kOptimizer,
              Form("an optimizer step on gradients that are still scaled",
                   "对仍带缩放的梯度的优化器更新"),
              {Form("At step {0} optimizer.step() was called past the scaler, on gradients that "
                    "are {1} times too large: neither unscaled nor checked for Inf.",
                    "在第 {0} 步，绕过 scaler 调用了 optimizer.step()，"
                    "梯度大了 {1} 倍：既没有反缩放，也没有检查 Inf。"),
               {*p.direct_step, runs::Number(p.direct_scale)}},
              p.direct_lines));
  }
  if (p.update_missing) {
    Claim claim = Fault(
        "missing-update", *p.update_missing, Phase::kOptimizer,
        Form("scaler.step() without scaler.update()", "有 scaler.step() 而没有 scaler.update()"),
        {Form("Step {0} ended after scaler.step() without scaler.update(): the scale never moves, "
              "and the next step() raises.",
              "第 {0} 步在 scaler.step() 之后没有 scaler.update() 就结束："
              "缩放不再变化，下一次 step() 会报错。"),
         {*p.update_missing}});
    claims.push_back(std::move(claim));
  }
  if (p.gradients_replaced) {
    claims.push_back(
        Fault("gradients-replaced", *p.gradients_replaced, Phase::kBackward,
              Form("gradients that are not finite, replaced before the step",
                   "在更新之前被替换的非有限梯度"),
              {Form("At step {0} gradients were not finite after the backward pass and finite when "
                    "the optimizer used them: something replaced NaN or Inf (nan_to_num, a mask), "
                    "and the step went on with what was left.",
                    "在第 {0} 步，反向传播之后梯度非有限，"
                    "而优化器使用时却是有限的：有什么替换了 NaN 或 Inf（nan_to_num"
                    "、掩码），更新用剩下的部分继续进行。"),
               {*p.gradients_replaced}}));
  }
}

}  // namespace mpnanny::diagnosis
