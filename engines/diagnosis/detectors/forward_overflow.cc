#include <algorithm>

#include "engines/diagnosis/detectors/detector.h"
#include "engines/diagnosis/facts/trend.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Sentence;

// A NaN is taken for the child of an overflow if its layer was this near to the limit in a sample
// before: at a growth of some percent a step that is a few sampling intervals.
constexpr double kNearLimit = 0.25;

}  // namespace

void DetectForwardOverflow(const Facts& facts, std::vector<Claim>& claims) {
  if (!facts.onset || facts.onset->phase != Phase::kForward || !InNarrowRange(facts)) return;
  const Onset& onset = *facts.onset;
  const bool near = facts.trend && facts.trend->limit > 0 &&
                    facts.trend->absmax.back().second > kNearLimit * facts.trend->limit;
  const bool traced = std::any_of(facts.origins.begin(), facts.origins.end(),
                                  [](const NanOrigin& b) { return b.posinf && !b.backward; });
  if (!onset.is_inf && !onset.is_overflow && !near && !traced) return;
  Claim claim;
  claim.id = "forward-overflow";
  claim.sentence = {
      Form("Overflow in the forward pass: {0} at step {1}{2}. A loss scale multiplies gradients "
           "only, so lowering it cannot help.",
           "前向传播溢出：第 {1} 步{0}{2}。损失缩放只乘在梯度上，"
           "降低它没有帮助。"),
      {onset.what, onset.step,
       facts.trend ? Sentence(Form("; {0}", "；{0}"), {TrendText(*facts.trend)}) : Sentence()}};
  if (near || onset.is_overflow) {
    claim.ground = Ground::kMeasured;
    claim.title = {
        Form("{0} left the range of its format at step {1}", "第 {1} 步{0}，超出了其格式的范围"),
        {onset.what, onset.step}};
    claim.fix = Form(
        "Find why the values grow. Until then compute that layer in FP32 or BF16 "
        "(torch.autocast(device_type, enabled=False) around it), or bound what it gives.",
        "找出数值为何增长。在此之前以 FP32 或 BF16 计算该层（在其周围用 "
        "torch.autocast(device_type, enabled=False)），或对其输出限幅。");
  }
  claim.strength = near || onset.is_overflow ? 1 : 0.8;
  claim.favours = {"category:nan-inf", "component:residual"};
  claim.opposes = {
      "category:not-precision", "category:scaler-protocol",    "category:grad-vanish",
      "category:stale-update",  "category:loss-scale-decline", "category:loss-scale-collapse",
      "component:data"};
  claims.push_back(std::move(claim));
  return;
}

}  // namespace mpnanny::diagnosis
