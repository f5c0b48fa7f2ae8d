// A learning rate of 0 while the training goes on.
#include <algorithm>
#include <cmath>

#include "tools/diagnose_run/detectors/detector.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

constexpr int64_t kLeastAtZero = 3;
// A schedule that comes to 0 with the end of the training spends few of its steps there.
constexpr int64_t kMostOfFinish = 20;  // one in so many
// The rate is the first parameter group's. A loss that falls so far without it learns by others.
constexpr double kFallsAnyway = 0.5;
// A log prints a rate with some decimals: what it prints as 0 is below half of the last of them,
// and must be below this share of the greatest rate to be none.
constexpr double kNone = 1e-3;

// Whether a rate that is told as 0 is 0, or is too small for the figures.
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
  const std::string unit =
      facts.monitored ? "step" : facts.numbered ? "logged step" : "logged line";
  Claim claim;
  claim.id = "zero-learning-rate";
  if (all) {
    claim.sentence = "The learning rate is 0 in all " + runs::Count(turns.rates, unit) +
                     " that show one: nothing is learned.";
    claim.title = "The learning rate is 0 all along (not precision)";
  } else {
    claim.sentence = "The learning rate is 0 from " + std::string(facts.numbered ? "step " : "line ") +
                     std::to_string(zero.first) + " to the end (" +
                     std::to_string(zero.steps) + " of " + runs::Count(turns.rates, unit) +
                     "), after " + runs::Number(turns.greatest_rate) +
                     " at most: nothing is learned from there on.";
    claim.title = "The schedule brings the learning rate to 0 before the training ends (not precision)";
  }
  claim.fix =
      "Give the schedule the number of optimizer steps of the whole training (epochs times batches, "
      "divided by the batches that are accumulated), and call scheduler.step() as often as it "
      "counts: a schedule of one epoch's steps, or one that is stepped twice, is over too soon. "
      "optimizer.param_groups[0]['lr'] tells the rate in force.";
  claim.strength = 1;
  claim.fault = true;
  claim.opposes = {"!component:learning-rate"};
  claim.place = FaultPlace{zero.first, "optimizer", "", "", "", "a learning rate of 0"};
  claims.push_back(std::move(claim));
}

}  // namespace mpnanny::diagnose_run
