// FP16 without what protects its gradients.
#include <algorithm>
#include <cmath>

#include "engines/diagnosis/detectors/detector.h"
#include "engines/diagnosis/facts/cancelled.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;

// Share of a tensor that is subnormal in FP16 (under 6.1e-5): where a tenth is, the tail below
// 6e-8 that became zero follows from how gradients are spread, over orders of magnitude.
constexpr double kFlushed = 0.1;
constexpr double kTiny = 6.1e-5;
constexpr double kBesideOnset = 0.3;

struct Flushed {
  double share = 0;  // worst
  const Series* where = nullptr;
  int64_t step = 0;
  double zeros = 0;
};

// Of gradients that FP16 holds, or held on the way: subnormal or zero elements. Zeros count only
// beside subnormal ones: a ReLU makes zeros as well. What cancels out is small in any format.
Flushed FindFlushed(const Facts& facts) {
  Flushed worst;
  for (const Series& series : facts.profile.series) {
    if (series.kind != runs::kActivationGradient && series.kind != runs::kGradient) continue;
    if (!IsHalf(series.dtype) && series.kind != runs::kGradient) continue;
    const double cancelled = CancelledShare(facts, series);
    for (const Measured& point : series.points) {
      const double live = point.numel - point.zeros;
      if (live <= 0 || point.numel <= 1 || point.nonfinite > 0) continue;
      const double small = point.subnormal_fp16 + point.below_fp16 - cancelled * point.numel;
      const double share = small / live;
      if (share > worst.share) {
        worst = {share, &series, point.step, point.zeros / point.numel};
      }
    }
  }
  return worst;
}

}  // namespace

void DetectLostGradients(const Facts& facts, std::vector<Claim>& claims) {
  // Most logs of FP16 show no loss scale, whether there is one or not.
  if (!facts.monitored || !UsesHalf(facts) || IsScaled(facts)) return;
  const bool weights = IsHalf(WeightDtype(facts));
  const Flushed flushed = FindFlushed(facts);
  const bool lost = flushed.where && flushed.share > kFlushed;
  double largest = 0;
  for (const Series& series : facts.profile.series) {
    if (series.kind != runs::kGradient) continue;
    for (const Measured& point : series.points) {
      largest = std::max(largest, point.absmax.value_or(0));
    }
  }
  Claim claim;
  claim.id = weights ? "half-weights" : "no-scaler";
  claim.sentence =
      weights ? Form(
                    "Weights, activations and gradients are held in float16 and there is no loss "
                    "scale.",
                    "权重、激活和梯度都以 float16 保存，并且没有损失缩放。")
      : facts.loop.autocast == "float16"
          ? Form("FP16 runs under autocast and the loss is not scaled: no loss scale was recorded.",
                 "FP16 在 autocast 下运行，而损失没有缩放：没有记录到损失缩放。")
          : Form(
                "A part of the model computes in FP16 and the loss is not scaled: no loss scale "
                "was recorded.",
                "模型的一部分用 FP16 计算，而损失没有缩放：没有记录到损失缩放。");
  // Values that are not finite are another story: too small a gradient makes none.
  const double share = facts.onset ? kBesideOnset : 1;
  claim.strength = share * (lost ? 1 : 0.7);
  claim.lost_in = Claim::LostIn::kGradients;
  claims.push_back(claim);
  if (!lost) return;
  Claim gone;
  gone.id = "gradients-flushed";
  gone.ground = Ground::kMeasured;
  gone.sentence = {
      Form("{0} % of the gradient elements that live in {1} are under {2} at step {3} ({4} % are "
           "0): FP16 holds them as subnormals and makes zeros of what is under 6e-8. The largest "
           "weight gradient is {5}.",
           "在第 {3} 步，{1} 中非零的梯度元素有 {0} % 小于 {2}（{4} % 为 0"
           "）：FP16 以次正规数保存它们，并把 6e-8 以下的变为零。"
           "最大的权重梯度为 {5}。"),
      {runs::Number(100 * flushed.share, 3), runs::Name(flushed.where->layer), runs::Number(kTiny),
       flushed.step, runs::Number(100 * flushed.zeros, 3), runs::Number(largest)}};
  gone.strength = share * std::min(1.0, 0.6 + flushed.share);
  gone.fault = !facts.onset;
  gone.lost_in = Claim::LostIn::kGradients;
  gone.place = FaultPlace{
      flushed.where->first().step,
      Phase::kBackward,
      "",
      "",
      "",
      {Form("gradients too small for FP16, most in {0}", "对 FP16 太小的梯度，多数在 {0} 中"),
       {runs::Name(flushed.where->layer)}}};
  claims.push_back(std::move(gone));
}

}  // namespace mpnanny::diagnosis
