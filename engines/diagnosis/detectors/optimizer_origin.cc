#include <algorithm>

#include "base/layer_word.h"
#include "base/text.h"
#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Sentence;

constexpr int64_t kNextSteps = 2;

bool IsOptimizerKind(const std::optional<int64_t>& kind) {
  return kind == runs::kWeight || kind == runs::kUpdate || kind == runs::kOptimizerState;
}

// Weights and gradient were finite, and a state that is made of gradients alone is not: it came in
// so.
void AddBadState(const Facts& facts, std::vector<Claim>& claims) {
  const Onset& onset = *facts.onset;
  const std::string states = EscapeControl(Join(facts.bad_states, ", "), 200);
  const auto& optimizers = facts.loop.optimizers;
  const bool with_state = !optimizers.empty() && optimizers.front().with_state > 0;
  const bool loaded = std::any_of(
      facts.loop.loads.begin(), facts.loop.loads.end(),
      [&](const LoadSeen& load) { return load.what == "optimizer" && load.step <= onset.step; });
  Claim claim;
  claim.id = "state-not-finite";
  claim.ground = Ground::kMeasured;
  claim.sentence = {Form("The optimizer's state {0} of {1} holds NaN after step {2}, while the "
                         "weights and the gradient were finite before it: sums and products of "
                         "finite numbers make no NaN, so that the state held it before.",
                         "第 {2} 步之后，{1} 的优化器状态 {0} 含有 NaN，"
                         "而在此之前权重和梯度都是有限的：有限数的和与积不会产生 NaN，"
                         "因此该状态此前就含有它。"),
                    {states, LayerWord(runs::Name(onset.layer)), onset.step}};
  if (loaded) {
    claim.sentence += Form("It came with the state that the optimizer had when it was loaded.",
                           "它来自载入时优化器的状态。");
  } else if (with_state) {
    claim.sentence += Form("It came with the state that the optimizer had when this run began.",
                           "它来自本次训练开始时优化器的状态。");
  }
  claim.strength = 0.9;
  claim.favours = {"component:checkpoint"};
  claim.title = {Form("The optimizer's state {0} was not finite before the first step that used it",
                      "优化器状态 {0} 在首个使用它的步之前就已非有限"),
                 {states}};
  claim.fix = Form(
      "Look into the checkpoint that it was loaded from (`mpnanny analyze FILE` names the tensors "
      "that are not finite) and at what saved it: a copy to the host that was still under way, a "
      "state of memory that nothing was written into. Resume from an earlier one, or reset the "
      "moments.",
      "检查它从中载入的检查点（`mpnanny analyze FILE` "
      "会指出非有限的张量）以及保存它的代码：尚未完成的到主机的复制，或从未写入过的内存中的状态。从"
      "更早的检查点恢复，或重置动量。");
  claim.place = FaultPlace{
      onset.step,
      Phase::kOptimizer,
      onset.layer,
      onset.layer_type,
      onset.source,
      Form("a state of the optimizer that was not finite before", "此前就已非有限的优化器状态")};
  claims.push_back(std::move(claim));
}

}  // namespace

void DetectOptimizerOrigin(const Facts& facts, std::vector<Claim>& claims) {
  const Series* state = nullptr;
  for (const Series& series : facts.profile.series) {
    if (series.kind == runs::kOptimizerState && IsHalf(series.dtype)) {
      state = &series;
      break;
    }
  }
  if (state) {
    Claim claim;
    claim.id = "half-optimizer-state";
    claim.sentence = {Form("The optimizer keeps its state in float16 ({0}): squares of gradients "
                           "under 2.4e-4 are 0 there, and so is an eps of 1e-8.",
                           "优化器以 float16 保存状态（{0}）：小于 2.4e-4 的梯度的平方在其"
                           "中为 0，1e-8 的 eps 也为 0。"),
                      {runs::Name(state->layer)}};
    claim.strength = 1;
    claims.push_back(std::move(claim));
  }
  if (!facts.onset) return;
  const Onset& onset = *facts.onset;
  if (onset.phase == Phase::kOptimizer && IsOptimizerKind(onset.kind) &&
      onset.layer_type != "buffer") {
    Claim claim;
    claim.id = "optimizer-division";
    const bool made = onset.detail.finite_before;
    if (made && !facts.bad_states.empty()) {
      AddBadState(facts, claims);
      return;
    }
    // Which division it was, only a comparison shows.
    claim.sentence = {
        made ? Form("Weights or optimizer state are the first that is not finite, at step {0}: "
                    "{1}. Weights and gradient were finite before the optimizer's step: its own "
                    "arithmetic made them, as a division by a second moment and eps that are 0 "
                    "does, or a state of it was not finite before.",
                    "首先变为非有限的是权重或优化器状态，在第 {0} 步：{1}。"
                    "优化器更新之前权重和梯度都是有限的：是优化器自身的运算产生的，"
                    "例如除以为 0 的二阶矩与 eps，或者它的某个状态此前就已非有限。")
             : Form("Weights or optimizer state are the first that is not finite, at step {0}: "
                    "{1}. The optimizer's step before made it.",
                    "首先变为非有限的是权重或优化器状态，在第 {0} 步：{1}。"
                    "是此前优化器的更新造成的。"),
        {onset.step, onset.what}};
    if (made) claim.ground = Ground::kMeasured;
    claim.strength = state ? 1 : 0.7;
    claim.favours = {"component:optimizer", "component:weights"};
    claim.opposes = {"!component:optimizer"};
    claims.push_back(std::move(claim));
    return;
  }
  if (onset.phase != Phase::kBackward || IsScaled(facts)) return;
  const auto weights =
      std::find_if(facts.alerts.begin(), facts.alerts.end(), [&](const SeenAlert& alert) {
        return alert.row.phase == Phase::kOptimizer && alert.row.severity == Severity::kError &&
               (alert.row.type == AlertType::kNan || alert.row.type == AlertType::kInf) &&
               alert.row.step >= onset.step && alert.row.step <= onset.step + kNextSteps;
      });
  if (weights == facts.alerts.end()) return;
  Claim claim;
  claim.id = "unchecked-gradient";
  claim.ground = Ground::kMeasured;
  claim.sentence = {
      Form("The gradient of step {0} was not finite and was applied all the same: at step {1} the "
           "weights of {2} are not finite. Without a GradScaler nobody looks before the step.",
           "第 {0} 步的梯度非有限，却仍被用于更新：在第 {1} 步，"
           "{2} 的权重非有限。没有 GradScaler，更新之前无人检查。"),
      {onset.step, weights->row.step, runs::Name(weights->layer)}};
  claim.strength = 1;
  claims.push_back(std::move(claim));
}

}  // namespace mpnanny::diagnosis
