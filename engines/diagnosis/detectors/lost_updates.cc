// Updates that change nothing.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/text.h"
#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Sentence;

constexpr double kFrozen = 0.5;  // as alert STALE_UPDATE
constexpr int64_t kZeroNorms = 5;

std::map<int64_t, const Series*> ByLayer(const Facts& facts, int64_t kind) {
  std::map<int64_t, const Series*> found;
  for (const Series& series : facts.profile.series) {
    if (series.kind == kind) found.emplace(series.layer_id, &series);
  }
  return found;
}

// Weighted by elements, over the samples: the share of updates under half an ulp.
void DetectFrozen(const Facts& facts, std::vector<Claim>& claims) {
  const auto weights = ByLayer(facts, runs::kWeight);
  // A rate of 0 moves nothing in any format.
  const int64_t still_from = FindClaim(claims, "zero-learning-rate")
                                 ? facts.turns.zero_rate.first
                                 : std::numeric_limits<int64_t>::max();
  double frozen = 0, all = 0;
  std::optional<int64_t> first;
  const Series* worst = nullptr;
  double worst_share = 0;
  std::string dtype;
  for (const Series& update : facts.profile.series) {
    if (update.kind != runs::kUpdate) continue;
    const auto weight = weights.find(update.layer_id);
    if (weight == weights.end() || !IsSixteen(weight->second->dtype)) continue;
    dtype = weight->second->dtype;
    double here = 0, here_all = 0;
    for (const Measured& point : update.points) {
      if (!point.frozen || point.numel <= 0 || point.step >= still_from) continue;
      here += *point.frozen;
      here_all += point.numel;
      if (*point.frozen > kFrozen * point.numel && (!first || point.step < *first)) {
        first = point.step;
      }
    }
    frozen += here;
    all += here_all;
    if (here_all > 0 && here / here_all > worst_share) {
      worst_share = here / here_all;
      worst = &update;
    }
  }
  if (!worst || all <= 0 || frozen < kFrozen * all) return;
  Claim claim;
  claim.id = "frozen-updates";
  claim.ground = Ground::kMeasured;
  claim.sentence = {Form("{0} % of the updates of weights in {1} are under half an ulp of the "
                         "weight and change nothing (most in {2}): the weights need an FP32 copy.",
                         "{1} 权重的更新量有 {0} % 小于权重的半个 ulp，"
                         "什么也没有改变（多数在 {2} 中）：权重需要 FP32 副本（主权"
                         "重）。"),
                    {runs::Number(100 * frozen / all, 3), dtype, runs::Name(worst->layer)}};
  claim.strength = 1;
  claim.fault = true;
  claim.lost_in = Claim::LostIn::kUpdates;
  claim.place = FaultPlace{first.value_or(0),
                           Phase::kOptimizer,
                           "",
                           "",
                           "",
                           {Form("updates under half an ulp of the weight, most in {0}",
                                 "小于权重半个 ulp 的更新量，多数在 {0} 中"),
                            {runs::Name(worst->layer)}}};
  claims.push_back(std::move(claim));
}

// Gradients live, nothing moves.
void DetectZeroed(const Facts& facts, std::vector<Claim>& claims) {
  std::map<int64_t, double> moved, pulled;  // by step: largest update, largest gradient
  std::map<int64_t, double> behind;         // largest activation gradient
  bool half = false;
  for (const Series& series : facts.profile.series) {
    for (const Measured& point : series.points) {
      const double absmax = point.absmax.value_or(0);
      if (series.kind == runs::kUpdate) {
        moved[point.step] = std::max(moved[point.step], absmax);
      } else if (series.kind == runs::kGradient) {
        pulled[point.step] = std::max(pulled[point.step], absmax);
        half = half || IsHalf(series.dtype);
      } else if (series.kind == runs::kActivationGradient) {
        behind[point.step] = std::max(behind[point.step], absmax);
      }
    }
  }
  int64_t still = 0;
  std::optional<int64_t> first;
  double largest = 0;
  for (const auto& [step, update] : moved) {
    const double gradient = std::max(pulled[step], behind[step]);
    const bool zeroed = update == 0 && gradient > 0;
    still += zeroed;
    if (zeroed && !first) first = step;
    if (zeroed) largest = std::max(largest, gradient);
  }
  if (FindClaim(claims, "frozen-updates")) return;
  // Every step tells its gradient norm; samples tell what lies beside it.
  const Turns& turns = facts.turns;
  const bool by_steps = turns.zero_norms >= kZeroNorms;
  const bool by_samples = still >= 2 && 2 * still >= static_cast<int64_t>(moved.size()) &&
                          !FindClaim(claims, "zero-learning-rate");
  const bool alive = largest > 0 || turns.lived;
  if (!(by_steps && alive) && !by_samples) return;
  if (by_steps) first = turns.zero_norms_first;
  Claim claim;
  claim.id = "zeroed-updates";
  claim.ground = Ground::kMeasured;
  if (by_steps) {
    claim.sentence = {
        Form("From step {0} on the gradients that the optimizer gets are exactly 0, for {1:step}, "
             "and the loss is not: no weight learns by them.",
             "从第 {0} 步起，优化器得到的梯度恰好为 0，共 {1} 步，"
             "而损失不为 0：没有权重能由此学习。"),
        {*first, turns.zero_norms}};
  } else {
    claim.sentence = {Form("In {0} of {1:sample} no weight moved at all, although gradients reach "
                           "{2}: nothing, or only what is too small for the weights, came of them.",
                           "{1} 次采样中有 {0} 次没有任何权重变化，而梯度达到 {2}："
                           "由此得到的更新为零，或对权重来说太小。"),
                      {still, static_cast<int64_t>(moved.size()), runs::Number(largest)}};
  }
  claim.strength = 0.9;
  claim.fault = true;
  claim.lost_in = Claim::LostIn::kUpdates;
  claim.place = FaultPlace{*first, Phase::kOptimizer,
                           "",     "",
                           "",     Form("updates that are exactly 0", "恰好为 0 的更新量")};
  claims.push_back(std::move(claim));
  half = half || IsHalf(WeightDtype(facts));
  // 65504 is 256 squared: the sum of squares of a gradient of a greater norm overflows FP16.
  if (!half) return;
  Claim norm;
  norm.id = "half-clip-norm";
  norm.sentence = Form(
      "The gradients are held in float16: the sum of their squares, from a norm of 256 on, is "
      "infinite there, and a clipping coefficient of limit / Inf is 0.",
      "梯度以 float16 保存：范数从 256 起，其平方和在那里为无穷大，"
      "裁剪系数 limit / Inf 为 0。");
  norm.strength = 0.9;
  norm.place = claims.back().place;
  claims.push_back(std::move(norm));
}

void DetectHalfClipNorm(const Facts& facts, std::vector<Claim>& claims) {
  for (const ClipSeen& clip : facts.loop.clips) {
    if (!clip.norm || std::isfinite(*clip.norm) || !IsHalf(clip.norm_dtype)) continue;
    if (facts.onset && facts.onset->step <= clip.step) return;
    Claim claim;
    claim.id = "half-clip-norm";
    claim.ground = Ground::kMeasured;
    claim.sentence = {Form("At step {0} the norm to clip by was {1} in float16, with finite "
                           "gradients: every gradient was multiplied by 0.",
                           "在第 {0} 步，裁剪所用的范数在 float16 中为 {1}，"
                           "而梯度是有限的：所有梯度都被乘以 0。"),
                      {clip.step, runs::Number(clip.norm)}};
    claim.strength = 1;
    claim.fault = true;
    claim.lost_in = Claim::LostIn::kUpdates;
    claim.place =
        FaultPlace{clip.step, Phase::kOptimizer,
                   "",        "",
                   "",        Form("an infinite norm to clip by", "裁剪所用的无穷大范数")};
    claims.push_back(std::move(claim));
    return;
  }
}

}  // namespace

void DetectLostUpdates(const Facts& facts, std::vector<Claim>& claims) {
  DetectFrozen(facts, claims);
  DetectHalfClipNorm(facts, claims);
  if (!FindClaim(claims, "half-clip-norm")) DetectZeroed(facts, claims);
}

}  // namespace mpnanny::diagnosis
