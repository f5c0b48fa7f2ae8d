// Gradients that are exactly 0 from the first step on, in any format: of all weights, or of some.
#include <algorithm>
#include <cmath>

#include "engines/diagnosis/detectors/detector.h"
#include "engines/diagnosis/facts/cancelled.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Sentence;

constexpr int64_t kZeroSteps = 20;      // with a norm of 0, and none without
constexpr double kLearnsAnyway = 0.05;  // a loss that falls by this share learns by other means
constexpr size_t kGradientSamples = 2;
constexpr size_t kTensorsNamed = 3;

bool ZeroThroughout(const Series& series) {
  return std::all_of(series.points.begin(), series.points.end(), [](const Measured& point) {
    return point.numel > 1 && point.zeros == point.numel;
  });
}

Sentence NamesOf(const std::vector<const Series*>& series) {
  std::string text;
  for (size_t i = 0; i < std::min(kTensorsNamed, series.size()); ++i) {
    text += (i > 0 ? ", " : "") + runs::Name(series[i]->layer);
  }
  if (series.size() <= kTensorsNamed) return text;
  return {Form("{0} and {1} more", "{0} 等，另有 {1} 个"),
          {text, static_cast<int64_t>(series.size() - kTensorsNamed)}};
}

// Of a loss that does not fall either. What backward passes is 0 wherever it is looked at.
void DetectAll(const Facts& facts, std::vector<Claim>& claims) {
  const Turns& turns = facts.turns;
  const summary::Summary& s = facts.summary;
  if (turns.lived || turns.zero_norms < kZeroSteps || turns.zero_norms < turns.norms) return;
  if (!s.loss_start || !s.loss_end) return;
  const bool falls = *s.loss_end < *s.loss_start - kLearnsAnyway * std::fabs(*s.loss_start);
  Claim claim;
  claim.id = "zero-gradients";
  claim.ground = Ground::kMeasured;
  claim.sentence = {
      Form("The gradient norm is exactly 0 in all {0:step} that show one, while the loss is not 0 "
           "({1} at first, {2} at the end): no weight gets a gradient, from the first step on.",
           "在记录了梯度范数的全部 {0} 步中，它都恰好为 0，而损失不为 0（开始 {1}，结束 "
           "{2}）：从第一步起就没有权重得到梯度。"),
      {turns.norms, runs::Number(s.loss_first), runs::Number(s.loss_last)}};
  claim.strength = 0.8;
  claim.fault = !falls;
  claim.open = falls;
  claim.title = Form("No weight gets a gradient other than 0, from the first step on",
                     "从第一步起，所有权重得到的梯度都为 0");
  claim.fix = Form(
      "Look for what makes 0 of the gradient on its way back from the loss: the backward() of a "
      "custom autograd.Function, a mask or a weight that is 0 for every sample, a factor that "
      "begins at 0. retain_grad() on the model's output tells on which side of it.",
      "查找梯度从损失返回途中被什么变为 0：自定义 autograd.Function "
      "的 backward()、对每个样本都为 0 的掩码或权重、"
      "从 0 开始的系数。在模型输出上调用 retain_grad() 可知它在哪一"
      "侧。");
  claim.place =
      FaultPlace{turns.zero_norms_first.value_or(0),
                 Phase::kBackward,
                 "",
                 "",
                 "",
                 Form("a gradient of exactly 0 in every weight", "所有权重的梯度恰好为 0")};
  claims.push_back(std::move(claim));
}

void DetectSome(const Facts& facts, std::vector<Claim>& claims) {
  std::vector<const Series*> zero, empty;
  int64_t trained = 0;
  for (const Series& series : facts.profile.series) {
    if (series.points.size() < kGradientSamples) continue;
    if (series.kind == runs::kGradient) {
      ++trained;
      if (!ZeroThroughout(series)) continue;
      if (MeasuredToCancel(facts.measured, series.layer) == 1) continue;  // it gets what it is due
      zero.push_back(&series);
    }
  }
  if (zero.empty() || static_cast<int64_t>(zero.size()) == trained) return;
  for (const Series& series : facts.profile.series) {
    if (series.kind != runs::kWeight || series.type != "buffer" || !ZeroThroughout(series) ||
        series.points.size() < kGradientSamples || NameHas(series.layer, {"running_"})) {
      continue;
    }
    const std::string module = series.Module();
    const bool beside = std::any_of(zero.begin(), zero.end(), [&](const Series* gradient) {
      return module.empty() || gradient->layer.starts_with(module + ".");
    });
    if (beside) empty.push_back(&series);
  }
  const Series& first = *zero.front();
  Claim claim;
  claim.id = "zero-gradients";
  claim.ground = Ground::kMeasured;
  claim.sentence = {Form("The gradient of {0} of {1:trained tensor} is exactly 0 in every element, "
                         "in every sample (steps {2} to {3}): {4}.",
                         "{1} 个参与训练的张量中有 {0} 个的梯度在每次采样（第 {2} 到 "
                         "{3} 步）中每个元素都恰好为 0：{4}。"),
                    {static_cast<int64_t>(zero.size()), trained, first.first().step,
                     first.last().step, NamesOf(zero)}};
  claim.strength = empty.empty() ? 0.5 : 0.7;
  const Form never("{0} of {1:trained tensor} never get a gradient other than 0",
                   "{1} 个参与训练的张量中有 {0} 个的梯度始终为 0");
  claim.title = {never, {static_cast<int64_t>(zero.size()), trained}};
  if (!empty.empty()) {
    claim.sentence +=
        Sentence(empty.size() == 1 ? Form("Beside them the buffer {0} holds nothing but 0: what is "
                                          "multiplied by that is 0, forward and backward.",
                                          "与它们在一起的缓冲区 {0} 全部为 0：与之相乘的结果为 0，"
                                          "前向和反向都是如此。")
                                   : Form("Beside them the buffers {0} hold nothing but 0: what is "
                                          "multiplied by that is 0, forward and backward.",
                                          "与它们在一起的缓冲区 {0} 全部为 0：与之相乘的结果为 0，"
                                          "前向和反向都是如此。"),
                 {NamesOf(empty)});
    claim.title = {
        Form("{0}, beside buffers that hold nothing but 0", "{0}，与之在一起的缓冲区全部为 0"),
        {std::move(claim.title)}};
    claim.fix = Form(
        "Compute the buffers anew after the model was made. Those that no checkpoint holds "
        "(persistent=False) are memory that nothing was written into after to_empty() or a "
        "construction on the meta device, until something fills them.",
        "在模型建好之后重新计算缓冲区。检查点中没有的缓冲区（"
        "persistent=False）在 to_empty() 或在 meta 设备上构建之后是从未"
        "写入过的内存，直到有什么填充它们。");
  } else {
    claim.fix = Form(
        "If these tensors are to train, look for what multiplies them by 0: a factor that begins "
        "at 0, a mask, an expert that is never chosen, a branch whose result is not used. If not, "
        "requires_grad_(False) says so.",
        "若这些张量需要训练，查找它们被什么乘以 0：从 0 开始的系数、"
        "掩码、从未被选中的专家、结果没有被使用的分支。若不需要，"
        "用 requires_grad_(False) 说明。");
  }
  // Experts that are never chosen, a loss of weight 0: alone it need not be one.
  claim.fault = !empty.empty();
  claim.open = empty.empty();
  claim.place = PlaceOf(
      first, first.first().step, Phase::kBackward,
      {Form("a gradient of exactly 0 in {0}", "{0} 的梯度恰好为 0"), {runs::Name(first.layer)}});
  claims.push_back(std::move(claim));
}

}  // namespace

void DetectZeroGradients(const Facts& facts, std::vector<Claim>& claims) {
  // A dead unit, a batch of zeros or a norm to clip by that is infinite explains them.
  if (facts.onset || FindClaim(claims, "dead-units") || FindClaim(claims, "constant-input") ||
      FindClaim(claims, "zeroed-updates") || FindClaim(claims, "half-clip-norm")) {
    return;
  }
  DetectAll(facts, claims);
  if (!FindClaim(claims, "zero-gradients")) DetectSome(facts, claims);
}

}  // namespace mpnanny::diagnosis
