// A learning rate of 0 while the training goes on.
#include <algorithm>
#include <cmath>

#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Sentence;

constexpr int64_t kLeastAtZero = 3;
// A schedule that comes to 0 with the end of the training spends few of its steps there.
constexpr int64_t kMostOfFinish = 20;  // one in so many
// The rate is the first parameter group's. A loss that falls so far without it learns by others.
constexpr double kFallsAnyway = 0.5;
// A log prints a rate with some decimals: what it prints as 0 is below half of the last of them,
// and must be below this share of the greatest rate to be none.
constexpr double kNone = 1e-3;

// Whether a rate that a log prints as 0 is 0, and not too small for the printed decimals.
bool IsZero(const Facts& facts) {
  const double greatest = facts.turns.greatest_rate.value_or(0);
  if (facts.monitored || greatest == 0) return facts.monitored;
  return 0.5 * std::pow(10.0, -facts.turns.rate_decimals) < kNone * greatest;
}

bool SomethingMoves(const Facts& facts) {
  const ZeroRate& zero = facts.turns.zero_rate;
  if (zero.loss_first && zero.loss_last && *zero.loss_first > 0 &&
      *zero.loss_last < kFallsAnyway * *zero.loss_first) {
    return true;
  }
  return std::any_of(
      facts.profile.series.begin(), facts.profile.series.end(), [&](const Series& series) {
        return series.kind == runs::kUpdate &&
               std::any_of(series.points.begin(), series.points.end(), [&](const Measured& point) {
                 return point.step >= zero.first && point.absmax.value_or(0) > 0;
               });
      });
}

}  // namespace

void DetectZeroRate(const Facts& facts, std::vector<Claim>& claims) {
  const Turns& turns = facts.turns;
  const ZeroRate& zero = turns.zero_rate;
  if (facts.onset || zero.steps < kLeastAtZero || zero.steps * kMostOfFinish < turns.rates) return;
  if (!IsZero(facts) || SomethingMoves(facts)) return;
  const bool all = zero.steps == turns.rates;
  const Sentence rates(facts.monitored  ? Form("{0:step}", "{0} 步")
                       : facts.numbered ? Form("{0:logged step}", "{0} 个记录的步")
                                        : Form("{0:logged line}", "{0} 行日志"),
                       {turns.rates});
  Claim claim;
  claim.id = "zero-learning-rate";
  claim.ground = Ground::kMeasured;
  if (all) {
    claim.sentence = {Form("The learning rate is 0 in all {0} that show one: nothing is learned.",
                           "在显示学习率的全部 {0}中，学习率都为 0：什么也没有学到。"),
                      {rates}};
    claim.title =
        Form("The learning rate is 0 all along (not precision)", "学习率始终为 0（不是精度问题）");
  } else {
    const Sentence first(
        facts.numbered ? Form("step {0}", "第 {0} 步") : Form("line {0}", "第 {0} 行"),
        {zero.first});
    claim.sentence = {Form("The learning rate is 0 from {0} to the end ({1} of {2}), after {3} at "
                           "most: nothing is learned from there on.",
                           "从{0}到结束学习率都为 0（{2}中的 {1} "
                           "个），此前最大为 {3}：从那里起什么也没有学到。"),
                      {first, zero.steps, rates, runs::Number(turns.greatest_rate)}};
    claim.title =
        Form("The schedule brings the learning rate to 0 before the training ends (not precision)",
             "学习率计划在训练结束之前就使学习率变为 0（不是精度问题）");
  }
  claim.fix = Form(
      "Give the schedule the number of optimizer steps of the whole training (epochs times "
      "batches, divided by the batches that are accumulated), and call scheduler.step() as often "
      "as it counts: a schedule of one epoch's steps, or one that is stepped twice, is over too "
      "soon. optimizer.param_groups[0]['lr'] tells the rate in force.",
      "把整个训练的优化器步数（轮数乘以批数，再除以累积的批数）交给学习率计划，并按它的计数单位调用"
      " "
      "scheduler.step()：只按一轮的步数制定的计划，或每步前进两次的计划，会过早结束。optimizer."
      "param_groups[0]['lr'] 给出当前生效的学习率。");
  claim.strength = 1;
  claim.fault = true;
  claim.opposes = {"!component:learning-rate"};
  claim.place = FaultPlace{
      zero.first, Phase::kOptimizer, "", "", "", Form("a learning rate of 0", "为 0 的学习率")};
  claims.push_back(std::move(claim));
}

}  // namespace mpnanny::diagnosis
