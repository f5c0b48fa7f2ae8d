// When the conditions of the loss scale fire, and when the search for a scale is over.
#include <gtest/gtest.h>

#include <string>

#include "monitor/core/alert_conditions.h"
#include "tests/monitor_core/observed.h"

namespace mpnanny {
namespace {

class ScaleTest : public testing::Test {
 protected:
  // A step of a run whose scale is `scale` and becomes `after`; answers what fires.
  std::string Step(double scale, double after, bool skipped = false) {
    StepFacts facts;
    facts.step = step_++;
    facts.scale = scale;
    facts.scale_after = after;
    facts.skipped = skipped;
    facts.has_gradients = has_gradients_;
    facts.growth_interval = growth_interval_;
    out_.clear();
    conditions_.Step(facts, out_);
    return Types(out_);
  }
  void Good(int steps, double scale = 65536) {
    for (int i = 0; i < steps; ++i) EXPECT_EQ(Step(scale, scale), "");
  }
  void Skipped(int steps, double scale = 65536) {
    for (int i = 0; i < steps; ++i) Step(scale, scale, true);
  }

  ScaleConditions conditions_;
  Alerts out_;
  int64_t step_ = 0;
  int64_t growth_interval_ = 2000;
  bool has_gradients_ = true;
};

TEST_F(ScaleTest, TheSearchIsOverAfterTenGoodStepsInARow) {
  Good(9);
  EXPECT_TRUE(conditions_.searching());
  Skipped(1);  // the count starts again
  EXPECT_EQ(conditions_.skipped_in_a_row(), 1);
  Good(9);
  EXPECT_EQ(conditions_.skipped_in_a_row(), 0);
  EXPECT_TRUE(conditions_.searching());
  Good(1);
  EXPECT_FALSE(conditions_.searching());
}

TEST_F(ScaleTest, AStepWhoseGradientsNobodyReadIsNeitherGoodNorBad) {
  Good(9);
  has_gradients_ = false;
  Good(20);
  EXPECT_TRUE(conditions_.searching());
  has_gradients_ = true;
  Good(1);
  EXPECT_FALSE(conditions_.searching());
}

TEST_F(ScaleTest, TheSearchIsOverAfterTwentySkippedSteps) {
  Skipped(19);
  EXPECT_TRUE(conditions_.searching());
  Skipped(1);
  EXPECT_FALSE(conditions_.searching());
  EXPECT_EQ(conditions_.skipped_in_a_row(), 20);
}

TEST_F(ScaleTest, TheSearchIsOverAfterAHundredSteps) {
  for (int i = 0; i < 33; ++i) Skipped(1), Good(2);
  EXPECT_TRUE(conditions_.searching());
  Good(1);
  EXPECT_FALSE(conditions_.searching());
}

TEST_F(ScaleTest, AScaleIsLowBelowAHundredthOfItsStart) {
  EXPECT_EQ(conditions_.low_bound(), 0);
  Good(10);
  EXPECT_EQ(conditions_.low_bound(), 655.36);
  EXPECT_EQ(Step(1024, 656), "");
  EXPECT_EQ(Step(1024, 655), "LOSS_SCALE_LOW");
  EXPECT_EQ(out_[0].value, 655);
  EXPECT_EQ(out_[0].threshold, 655.36);
  EXPECT_EQ(out_[0].phase, Phase::kOptimizer);
}

TEST_F(ScaleTest, DuringTheSearchNoScaleIsLow) {
  EXPECT_EQ(Step(65536, 2, true), "");
  EXPECT_EQ(Step(2, 2), "");
}

TEST_F(ScaleTest, BoundsOfUnusualStarts) {
  const struct {
    double initial, bound;
  } kTable[] = {{1 << 20, 655.36}, {20'000, 200}, {1000, 128}, {0.5, 128}};
  for (const auto& row : kTable) {
    ScaleConditions conditions;
    StepFacts facts;
    facts.scale = row.initial;
    Alerts out;
    conditions.Step(facts, out);
    EXPECT_EQ(conditions.low_bound(), row.bound) << row.initial;
  }
}

TEST_F(ScaleTest, AScaleThatWasSetLowOnPurposeIsNoAlert) {
  Good(20, 64);
  EXPECT_EQ(Step(64, 32), "LOSS_SCALE_LOW");
  EXPECT_EQ(out_[0].threshold, 64);
}

TEST_F(ScaleTest, FiveFallsWithoutARiseAreADecline) {
  Good(10);
  EXPECT_EQ(Step(65536, 32768), "");
  EXPECT_EQ(Step(32768, 32768), "");  // no rise, no fall
  EXPECT_EQ(Step(32768, 16384), "");
  EXPECT_EQ(Step(16384, 8192), "");
  EXPECT_EQ(Step(8192, 4096), "");
  EXPECT_EQ(Step(4096, 2048), "LOSS_SCALE_DECLINE");
  EXPECT_EQ(out_[0].message, "The loss scale fell 5 times without a rise, from 65536 to 2048.");
  EXPECT_EQ(out_[0].value, 5);
  EXPECT_EQ(out_[0].threshold, 5);
  EXPECT_EQ(Step(2048, 4096), "");
  EXPECT_EQ(Step(4096, 2048), "");  // counted anew
}

TEST_F(ScaleTest, FallsOfTheSearchAreNotCounted) {
  for (double scale = 65536; scale > 2048; scale /= 2) EXPECT_EQ(Step(scale, scale / 2, true), "");
  Good(10, 2048);
  EXPECT_EQ(Step(2048, 1024), "");
}

TEST_F(ScaleTest, TwentyStepsAtOneOrBelowAreACollapse) {
  Skipped(19, 1);
  EXPECT_EQ(Step(2, 1, true), "");  // it was above once: counted anew
  for (int i = 0; i < 19; ++i) EXPECT_EQ(Step(1, 1).find("COLLAPSE"), std::string::npos);
  EXPECT_NE(Step(0.5, 0.5).find("LOSS_SCALE_COLLAPSE"), std::string::npos);
  EXPECT_EQ(out_[0].value, 0.5);
  EXPECT_EQ(out_[0].threshold, 1);
  EXPECT_TRUE(out_[0].message.starts_with(
      "The loss scale has been at or below 1 for 20 steps (now 0.5)."));
}

TEST_F(ScaleTest, MoreThanTwoSkipsInAHundredStepsAreTooMany) {
  Good(10);
  EXPECT_EQ(Step(4096, 4096, true), "");
  Good(49, 4096);
  EXPECT_EQ(Step(4096, 4096, true), "");
  Good(48, 4096);
  EXPECT_EQ(Step(4096, 4096, true), "STEP_SKIPPED");  // 99 steps after the first
  EXPECT_EQ(out_[0].value, 3);
  EXPECT_EQ(out_[0].threshold, 2);
  Good(1, 4096);  // a step that was taken does not repeat it
}

TEST_F(ScaleTest, ASkipIsForgottenAfterAHundredSteps) {
  Good(10);
  EXPECT_EQ(Step(4096, 4096, true), "");
  Good(49, 4096);
  EXPECT_EQ(Step(4096, 4096, true), "");
  Good(49, 4096);
  EXPECT_EQ(Step(4096, 4096, true), "");  // 100 steps after the first
}

TEST_F(ScaleTest, AScalerThatGrowsOftenMaySkipOften) {
  growth_interval_ = 50;
  Good(10);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Step(4096, 4096, true), "");
  EXPECT_EQ(Step(4096, 4096, true), "STEP_SKIPPED");
  EXPECT_EQ(out_[0].threshold, 4);
}

TEST_F(ScaleTest, WithoutAScalerThereIsNothing) {
  StepFacts facts;
  facts.skipped = true;
  for (int i = 0; i < 30; ++i) conditions_.Step(facts, out_);
  EXPECT_EQ(Types(out_), "");
  EXPECT_EQ(conditions_.low_bound(), 0);
  EXPECT_TRUE(conditions_.searching());
}

}  // namespace
}  // namespace mpnanny
