#include <algorithm>
#include <cmath>

#include "engines/diagnosis/detectors/detector.h"
#include "engines/diagnosis/summary/stability.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {

namespace {

using runs::Form;
using runs::Sentence;

constexpr size_t kManySpikes = 3;
constexpr double kThrown = 2;
constexpr double kWithoutComparison = 0.3;  // what is left where the compiled step was not compared

// Whether shadow steps ran the code as it is written, and not what torch.compile made of it.
bool OnlyEagerCompared(const Facts& facts) {
  return std::any_of(facts.measured.steps.begin(), facts.measured.steps.end(),
                     [](const runs::ShadowStep& step) { return step.eager; });
}

// A state that went through 16 bits, or anything that a wider format was shown to cure.
bool PrecisionHasAPart(const Facts& facts) {
  return std::any_of(
      facts.measured.findings.begin(), facts.measured.findings.end(),
      [](const MeasuredFinding& each) { return each.finding.proof == Proof::kProven; });
}

}  // namespace

void DetectDivergence(const Facts& facts, std::vector<Claim>& claims) {
  const Course& c = facts.course;
  const auto [loss_rose, norm_rose, rose_for_good, again] = FindDivergence(facts);
  // Bounded, but thrown about from the start on and no better for it.
  const summary::Summary& s = facts.summary;
  const bool thrown = !facts.onset && facts.turns.spikes.size() >= kManySpikes && s.loss_first &&
                      *s.loss_first > 0 && s.loss_min.value_or(0) >= 0 && s.loss_end &&
                      *s.loss_end > s.loss_start.value_or(*s.loss_first) &&
                      *s.loss_end > *s.loss_first && c.loss_greatest &&
                      *c.loss_greatest > kThrown * *s.loss_first && !SpikesAreNoise(facts.turns);
  if (facts.onset ? !(loss_rose || norm_rose) : !rose_for_good && !thrown) return;
  // A NaN of the batch or of the loss function needs no divergence.
  if (facts.onset && (facts.onset->phase == Phase::kData || facts.onset->phase == Phase::kLoss) &&
      facts.onset->place == Onset::Place::kProducer && !norm_rose) {
    return;
  }
  Claim claim;
  claim.id = "diverged";
  Sentence how = facts.onset
                     ? Form("The run diverged in finite numbers before anything became non-finite",
                            "在出现非有限值之前，训练已在有限的数值上发散")
                     : Form("The run diverged in finite numbers", "训练在有限的数值上发散");
  if (thrown && !rose_for_good) {
    how = {Form("The loss is thrown about and ends no lower than it began: {0} spikes, the highest "
                "{1}, {2} at first and {3} at the end",
                "损失剧烈波动，结束时不低于开始时：{0} 次尖峰，最高 {1}，"
                "开始 {2}，结束 {3}"),
           {static_cast<int64_t>(facts.turns.spikes.size()), runs::Number(c.loss_greatest),
            runs::Number(s.loss_first), runs::Number(s.loss_end)}};
    claim.fault = true;
  }
  if (loss_rose || rose_for_good) {
    how = {Form("{0}: the loss rose from {1} (step {2}) to {3}",
                "{0}：损失从 {1}（第 {2} 步）升到 {3}"),
           {std::move(how), runs::Number(c.loss_low), c.loss_rise_from.value_or(0),
            runs::Number(c.loss_greatest)}};
  }
  if (norm_rose || again) {
    how = {loss_rose || rose_for_good
               ? Form("{0}, the gradient norm from {1} (median of its last values) to {2} at most",
                      "{0}，梯度范数从 {1}（最后若干值的中位数）升到最大 {2}")
               : Form("{0}: the gradient norm from {1} (median of its last values) to {2} at most",
                      "{0}：梯度范数从 {1}（最后若干值的中位数）升到最大 {2}"),
           {std::move(how), runs::Number(c.norm_median), runs::Number(c.norm_greatest)}};
  }
  if (c.lr_before) {
    how = {Form("{0}; the last learning rate is {1}", "{0}；最后的学习率为 {1}"),
           {std::move(how), runs::Number(c.lr_before)}};
  }
  const bool wide = facts.precision == Precision::kFp32 || facts.precision == Precision::kBf16;
  claim.sentence = {Form("{0}.", "{0}。"), {std::move(how)}};
  if (facts.precision == Precision::kFp32 && !PrecisionHasAPart(facts)) {
    claim.sentence += Form("Everything was computed in FP32: this is not precision.",
                           "全部计算都用 FP32：这不是精度问题。");
  } else if (facts.precision == Precision::kBf16) {
    claim.sentence += Form(
        "BF16 has FP32's range, so no value left its range early: the range of the format is not "
        "the cause, and FP32 would most likely diverge as well.",
        "BF16 的范围与 FP32 相同，没有数值提前超出范围："
        "原因不在格式的范围，FP32 很可能同样发散。");
  }
  claim.strength = wide ? 1 : InNarrowRange(facts) && facts.onset ? 0.3 : 0.6;
  claim.favours = {"component:learning-rate"};
  if (OnlyEagerCompared(facts)) {
    claim.strength *= kWithoutComparison;
    claim.sentence += Form(
        "The code was compared with FP64 as it is written, not as torch.compile has made it: a "
        "fault of the compiled step is not excluded. If the run stays finite without "
        "torch.compile, it is one.",
        "与 FP64 比较的是代码本来的写法，而不是 torch.compile 编译后的"
        "结果：不能排除编译后的步有错误。若不用 torch.compile 时训练保"
        "持有限，就是编译造成的。");
  } else if (wide) {
    claim.opposes = {"!component:learning-rate"};
  }
  claims.push_back(std::move(claim));
}

}  // namespace mpnanny::diagnosis
