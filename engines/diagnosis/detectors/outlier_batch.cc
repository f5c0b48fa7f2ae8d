#include <algorithm>
#include <cmath>

#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Sentence;

// Far above the level before, and above all of the run, the untrained model included: one that has
// all but learned its task has hard batches of many times its level, and a loss whose level is 0 (a
// policy's) has no level to be told from.
constexpr double kHigh = 3;
constexpr size_t kMostBatches = 3;
constexpr int64_t kSoonOver = 60;  // steps until the weights have recovered
// Another batch as hard, to this part: such batches belong to the task (episodes, rare classes).
constexpr double kAsHigh = 0.5;

}  // namespace

void DetectOutlierBatch(const Facts& facts, std::vector<Claim>& claims) {
  // What the schedule, a restart or a broken value explains is no batch's doing.
  if (facts.onset || FindClaim(claims, "lr-jump") || FindClaim(claims, "optimizer-restarted")) {
    return;
  }
  const summary::Summary& s = facts.summary;
  const Spike* worst = nullptr;
  size_t high = 0;
  for (const Spike& spike : facts.turns.spikes) {
    if (spike.value < spike.median + kHigh * std::fabs(spike.median)) continue;
    ++high;
    // Above all of the run, and further from its level than its losses lie apart anyway.
    if (spike.value < spike.largest_before || spike.value - spike.median < spike.range_before)
      continue;
    const bool over = spike.over && *spike.over - spike.step <= kSoonOver;
    if (over && (!worst || spike.value > worst->value)) worst = &spike;
  }
  // A run whose loss is thrown about all the time, or that is worse than when it began, is
  // unstable.
  const bool worse =
      s.loss_first && s.loss_end && *s.loss_end > *s.loss_first + 0.1 * std::fabs(*s.loss_first);
  if (high > kMostBatches || worse) return;
  if (!worst) return;
  Claim claim;
  claim.id = "outlier-batch";
  Sentence norm;
  if (worst->norm && worst->norm_median && *worst->norm > 3 * *worst->norm_median) {
    norm = {Form(" and the gradient norm {0} after {1}", "，梯度范数为 {0}，此前为 {1}"),
            {runs::Number(worst->norm), runs::Number(worst->norm_median)}};
  }
  claim.sentence = {
      Form("At step {0} the loss was {1} after a level of {2}{3}, from one step to "
           "the next, and three quarters of that rise were gone at step {4}; learning "
           "rate and optimizer went on as before: that batch is out of the ordinary.",
           "第 {0} 步的损失为 {1}，此前的水平为 {2}{3}，"
           "变化发生在一步之间，到第 {4} 步上升的四分之三已经消失；学习率和优化器照常："
           "该批次异常。"),
      {worst->step, runs::Number(worst->value), runs::Number(worst->median), std::move(norm),
       *worst->over}};
  claim.strength = 0.9;
  const auto as_high =
      std::count_if(facts.turns.spikes.begin(), facts.turns.spikes.end(),
                    [&](const Spike& spike) { return spike.value >= kAsHigh * worst->value; });
  const bool harmless = WasGotOver(facts, worst->step, worst->median) || as_high > 1;
  claim.open = !harmless;
  claim.note = harmless;
  claim.place = FaultPlace{
      worst->step, Phase::kData, "", "", "", Form("a batch out of the ordinary", "异常的批次")};
  claims.push_back(std::move(claim));
}

}  // namespace mpnanny::diagnosis
