// Detectors of faults that no value shows that is not finite: what never moves, and what is only
// seen.
#include <gtest/gtest.h>

#include "tests/runs/detector_facts.h"

namespace mpnanny::diagnosis {
namespace {

Facts Recorded() {
  Facts facts;
  facts.precision = Precision::kFp32;
  facts.summary.first_step = 0;
  facts.summary.last_step = 199;
  facts.summary.steps = 200;
  facts.summary.finite_losses = 200;
  facts.summary.loss_start = facts.summary.loss_end = 3.7;
  return facts;
}

void Zero(Series& series) {
  for (Measured& point : series.points) point.zeros = point.numel;
}

// 200 steps with this gradient norm and loss.
Turns Steps(double norm, double loss) {
  TurnFinder finder;
  for (int64_t step = 0; step < 200; ++step) {
    runs::StepRow row;
    row.step = step;
    row.loss = loss;
    row.grad_norm = norm;
    finder.Add(row);
  }
  return finder.Finish();
}

const Claim* Find(const std::vector<Claim>& claims, std::string_view id) {
  return FindClaim(claims, id);
}

TEST(ZeroGradients, OfAllWeightsFromTheFirstStepOn) {
  Facts facts = Recorded();
  facts.turns = Steps(0, 3.7);
  const auto claims = RunDetectors(facts);
  const Claim* claim = Find(claims, "zero-gradients");
  ASSERT_TRUE(claim);
  EXPECT_TRUE(claim->fault);
  EXPECT_NE(claim->sentence.English().find("all 200 steps"), std::string::npos)
      << claim->sentence.English();
  // That they are 0 "from step N on" needs that they once lived.
  EXPECT_FALSE(Find(claims, "zeroed-updates"));
  facts.turns = Steps(0.5, 3.7);
  EXPECT_FALSE(Fires(facts, "zero-gradients"));
}

TEST(ZeroGradients, AreNoneAtALossOfZero) {
  Facts facts = Recorded();
  facts.summary.loss_start = facts.summary.loss_end = 0;
  facts.turns = Steps(0, 0);
  EXPECT_FALSE(Fires(facts, "zero-gradients"));
  TurnFinder finder;  // it lived, and then everything was learnt
  for (int64_t step = 0; step < 100; ++step) {
    runs::StepRow row;
    row.step = step;
    row.loss = step < 50 ? 1.0 : 0.0;
    row.grad_norm = step < 50 ? 1.0 : 0.0;
    finder.Add(row);
  }
  facts.turns = finder.Finish();
  EXPECT_FALSE(Fires(facts, "zeroed-updates"));
}

TEST(ZeroGradients, OfSomeTensorsAreSeenAndWithAnEmptyBufferAFault) {
  Facts facts = Recorded();
  AddSeries(facts, "attn.v.weight", runs::kGradient, "float32", {{0, 1}, {100, 1}});
  Zero(AddSeries(facts, "attn.q.weight", runs::kGradient, "float32", {{0, 0}, {100, 0}}));
  auto claims = RunDetectors(facts);
  const Claim* claim = Find(claims, "zero-gradients");
  ASSERT_TRUE(claim);
  EXPECT_TRUE(claim->open && !claim->fault);
  EXPECT_NE(claim->sentence.English().find("1 of 2 trained tensors"), std::string::npos)
      << claim->sentence.English();

  Zero(AddSeries(facts, "attn.cos", runs::kWeight, "float32", {{0, 0}, {100, 0}}, "buffer"));
  claims = RunDetectors(facts);
  claim = Find(claims, "zero-gradients");
  ASSERT_TRUE(claim);
  EXPECT_TRUE(claim->fault);
  EXPECT_NE(claim->sentence.English().find("attn.cos"), std::string::npos)
      << claim->sentence.English();

  // A zero-initialised factor holds it back in the first sample only.
  facts.profile.series[1].points[1].zeros = 0;
  EXPECT_FALSE(Fires(facts, "zero-gradients"));
}

TEST(ZeroGradients, ThatCancelOutAreNone) {
  Facts facts = Recorded();
  AddSeries(facts, "head.weight", runs::kGradient, "float32", {{0, 1}, {100, 1}});
  Zero(AddSeries(facts, "head.bias", runs::kGradient, "float32", {{0, 0}, {100, 0}}));
  runs::ShadowStep step;
  step.covered.emplace();
  step.covered->gradients = {2, 2};
  step.covered->cancelled.emplace();
  facts.measured.steps = {step, step};
  EXPECT_TRUE(Fires(facts, "zero-gradients")) << "it is 0 in FP64 too, and no sum";
  for (auto& each : facts.measured.steps) each.covered->cancelled = {{"head.bias", 1.0}};
  EXPECT_FALSE(Fires(facts, "zero-gradients"));
  facts.measured.steps[0].covered->cancelled = {{"head.bias", 0.5}};
  EXPECT_TRUE(Fires(facts, "zero-gradients")) << "of the half of them nothing is known";
}

TEST(ConstantInput, ABatchOfZerosIsNoReluThatIsOff) {
  Facts facts = Recorded();
  Zero(AddSeries(facts, "0", runs::kInput, "float32", {{0, 0}, {100, 0}}, "Conv3d"));
  AddSeries(facts, "0", runs::kActivation, "bfloat16", {{0, 1}, {100, 1}}, "Conv3d");
  facts.profile.series[1].layer_id = facts.profile.series[0].layer_id;
  facts.profile.series[1].position = facts.profile.series[0].position;
  EXPECT_TRUE(Fires(facts, "constant-input"));
  EXPECT_FALSE(Fires(facts, "dead-units"));
  facts.profile.series[0].points[0].zeros = 990;  // a sparse one
  facts.profile.series[0].points[1].zeros = 990;
  EXPECT_FALSE(Fires(facts, "constant-input"));
  EXPECT_FALSE(Fires(facts, "dead-units"));
}

TEST(DeadUnits, AreSeenInTheInputBehindAModuleThatLives) {
  Facts facts = Recorded();
  AddSeries(facts, "up", runs::kActivation, "float32", {{0, 1}, {10, 1}, {20, 1}});
  Zero(AddSeries(facts, "down", runs::kInput, "float32", {{0, 0}, {10, 0}, {20, 0}}));
  EXPECT_TRUE(Fires(facts, "dead-units"));
  facts.profile.series[0].points[2].numel = 500;  // of another size: not what came out of it
  EXPECT_FALSE(Fires(facts, "dead-units"));
}

// A loss by step.
template <typename F>
Turns Losses(int64_t steps, const F& loss) {
  TurnFinder finder;
  for (int64_t step = 0; step < steps; ++step) {
    runs::StepRow row;
    row.step = step;
    row.loss = loss(step);
    row.grad_norm = 1.0;
    finder.Add(row);
  }
  return finder.Finish();
}

TEST(OutlierBatch, IsNoneWithinTheRangeOfANoisyLoss) {
  Facts facts = Recorded();
  facts.summary.loss_first = facts.summary.loss_end = 0.05;
  const auto noisy = [](double spike) {
    return [spike](int64_t step) {
      return step == 20 ? -0.6 : step == 120 ? spike : 0.05 + 0.001 * static_cast<double>(step % 5);
    };
  };
  facts.turns = Losses(200, noisy(0.62));
  EXPECT_FALSE(Fires(facts, "outlier-batch"));
  facts.turns = Losses(200, noisy(4));
  EXPECT_TRUE(Fires(facts, "outlier-batch"));
}

TEST(OutlierBatch, ThatTheRunGotOverEarlyIsANote) {
  Facts facts = Recorded();
  facts.summary.loss_first = 1.0;
  facts.summary.loss_end = 0.2;
  const auto course = [](int64_t at) {
    return [at](int64_t step) {
      return step == at ? 9.0 : step < 40 ? 1.0 + 0.001 * static_cast<double>(step % 3) : 0.2;
    };
  };
  facts.summary.last_step = 999;
  facts.turns = Losses(1000, course(30));
  auto claims = RunDetectors(facts);
  ASSERT_TRUE(Find(claims, "outlier-batch"));
  EXPECT_TRUE(Find(claims, "outlier-batch")->note && !Find(claims, "outlier-batch")->open);
  facts.turns = Losses(1000, course(500));
  claims = RunDetectors(facts);
  ASSERT_TRUE(Find(claims, "outlier-batch"));
  EXPECT_TRUE(Find(claims, "outlier-batch")->open) << "recognised: no fault for that alone";
  EXPECT_FALSE(Find(claims, "outlier-batch")->fault);
}

TEST(OptimizerOrigin, AStateThatHeldNanBeforeIsNotTheOptimizersArithmetic) {
  Facts facts = BrokenAt(0, "optimizer", "5.weight");
  facts.onset->kind = runs::kWeight;
  facts.onset->is_nan = true;
  facts.onset->detail.finite_before = true;
  facts.bad_states = {"exp_avg"};
  facts.loop.optimizers.push_back({.step = 0, .kind = "AdamW", .with_state = 8});
  const auto claims = RunDetectors(facts);
  EXPECT_FALSE(Find(claims, "optimizer-division"));
  const Claim* claim = Find(claims, "state-not-finite");
  ASSERT_TRUE(claim);
  EXPECT_NE(claim->sentence.English().find("exp_avg"), std::string::npos);
  EXPECT_NE(claim->sentence.English().find("when this run began"), std::string::npos)
      << claim->sentence.English();
  facts.bad_states.clear();
  EXPECT_TRUE(Fires(facts, "optimizer-division"));
}

TEST(WeighAgainstShadow, OnlyWhatWasComparedIsTakenBack) {
  Facts facts = Recorded();
  facts.precision = Precision::kBf16;
  AddSeries(facts, "w", runs::kWeight, "bfloat16", {{0, 1}, {10, 1}});
  Series& update = AddSeries(facts, "w", runs::kUpdate, "bfloat16", {{0, 1e-6}, {10, 1e-6}});
  update.layer_id = facts.profile.series[0].layer_id;
  for (Measured& point : update.points) point.frozen = 900;
  runs::ShadowStep step;
  step.covered.emplace();
  step.covered->gradients = {4, 4};
  step.covered->updates = {0, 4};
  for (step.step = 0; step.step < 4; ++step.step) facts.measured.steps.push_back(step);
  auto claims = RunDetectors(facts);
  EXPECT_TRUE(Find(claims, "frozen-updates")->fault) << "no update was compared";
  for (runs::ShadowStep& each : facts.measured.steps) each.covered->updates = {4, 4};
  claims = RunDetectors(facts);
  EXPECT_FALSE(Find(claims, "frozen-updates")->fault);
}

}  // namespace
}  // namespace mpnanny::diagnosis
