// Detectors that judge sampled statistics.
#include <gtest/gtest.h>

#include "tests/runs/detector_facts.h"

namespace mpnanny::diagnosis {
namespace {

Facts Recorded(const std::string& precision) {
  Facts facts;
  facts.precision = Word<Precision>(precision);
  facts.summary.first_step = 0;
  facts.summary.steps = 100;
  return facts;
}

void Zero(Series& series, double share) {
  for (Measured& point : series.points) point.zeros = share * point.numel;
}

TEST(NormOutputZero, ZerosBehindWhatNoSquareHolds) {
  Facts facts = Recorded("fp16");
  AddSeries(facts, "norm", runs::kInput, "float16", {{0, 3}, {10, 400}});
  Series& output = AddSeries(facts, "norm", runs::kActivation, "float16", {{0, 3}, {10, 0}}, "Rms");
  output.layer_id = facts.profile.series[0].layer_id;
  output.points[1].zeros = 1000;
  EXPECT_TRUE(Fires(facts, "norm-output-zero"));
  facts.profile.series[0].points[1].absmax = 200;  // its square fits
  EXPECT_FALSE(Fires(facts, "norm-output-zero"));
}

TEST(RawInputs, OnlyWhereFp16OverflowsAndSampleAfterSample) {
  Facts facts = Recorded("fp16");
  AddSeries(facts, "enter", runs::kInput, "float32", {{0, 900}, {10, 800}, {20, 850}});
  EXPECT_FALSE(Fires(facts, "raw-inputs"));  // nothing overflows
  facts.scale.declining = true;
  EXPECT_TRUE(Fires(facts, "raw-inputs"));
  facts.precision = Precision::kBf16;
  EXPECT_FALSE(Fires(facts, "raw-inputs"));
  facts.precision = Precision::kFp16;
  for (size_t i : {0, 1}) {  // a single batch is another matter
    facts.profile.series[0].points[i].absmax = facts.profile.series[0].points[i].rms = 2;
  }
  EXPECT_FALSE(Fires(facts, "raw-inputs"));
}

TEST(LostGradients, Fp16WithoutAScale) {
  Facts facts = Recorded("fp16");
  Series& gradient = AddSeries(facts, "fc", runs::kActivationGradient, "float16", {{0, 1e-6}});
  gradient.points[0].subnormal_fp16 = 900;
  AddSeries(facts, "fc.weight", runs::kWeight, "float32", {{0, 1}});
  EXPECT_TRUE(Fires(facts, "no-scaler"));
  EXPECT_TRUE(Fires(facts, "gradients-flushed"));
  EXPECT_FALSE(Fires(facts, "half-weights"));
  facts.profile.series[1].dtype = "float16";
  EXPECT_TRUE(Fires(facts, "half-weights"));
  facts.profile.series[0].points[0].subnormal_fp16 = 10;
  EXPECT_FALSE(Fires(facts, "gradients-flushed"));
  facts.summary.scale_first = facts.summary.scale_max = 1024;
  EXPECT_FALSE(Fires(facts, "half-weights"));
  facts = Recorded("bf16");
  AddSeries(facts, "fc", runs::kActivationGradient, "bfloat16", {{0, 1e-6}});
  EXPECT_FALSE(Fires(facts, "no-scaler"));
}

// A module in FP16 with the gradient of its output, and that of a bias that FP16 could not hold.
Facts WithTinyBias() {
  Facts facts = Recorded("fp16");
  AddSeries(facts, "fc", runs::kActivationGradient, "float16", {{0, 0.01}, {10, 0.01}});
  Series& weight = AddSeries(facts, "fc.weight", runs::kGradient, "float32", {{0, 1}, {10, 1}});
  for (Measured& point : weight.points) point.numel = 8000;
  Series& bias = AddSeries(facts, "fc.bias", runs::kGradient, "float32", {{0, 1e-6}, {10, 1e-6}});
  for (Measured& point : bias.points) point.numel = point.subnormal_fp16 = 50;
  return facts;
}

TEST(LostGradients, AreNoneWhereTheyWereMeasuredToCancelOut) {
  Facts facts = WithTinyBias();
  facts.profile.series.erase(facts.profile.series.begin());  // the output's gradient was not seen
  EXPECT_TRUE(Fires(facts, "gradients-flushed"));
  runs::ShadowStep step;
  step.covered.emplace();
  step.covered->gradients = {2, 3};
  facts.measured.steps = {step};
  EXPECT_TRUE(Fires(facts, "gradients-flushed")) << "an earlier monitor did not look";
  auto& cancelled = facts.measured.steps[0].covered->cancelled;
  cancelled = {{"fc.bias", 1.0}};
  EXPECT_FALSE(Fires(facts, "gradients-flushed"));
  cancelled = {{"other.bias", 1.0}};
  EXPECT_TRUE(Fires(facts, "gradients-flushed"));
  // A part of it, as of a bias that keys have together with values.
  cancelled = {{"fc.bias", 0.4}};
  EXPECT_TRUE(Fires(facts, "gradients-flushed"));
  for (Measured& point : facts.profile.series[1].points) point.subnormal_fp16 = 22;
  EXPECT_FALSE(Fires(facts, "gradients-flushed"));
}

TEST(LostGradients, AreNoneOfASumThatIsWhatRoundingLeaves) {
  Facts facts = WithTinyBias();
  EXPECT_FALSE(Fires(facts, "gradients-flushed"));
  // Twenty terms of 1e-6 make a sum as small, and those are too small for FP16.
  for (Measured& point : facts.profile.series[0].points) point.rms = point.absmax = 1e-6;
  EXPECT_TRUE(Fires(facts, "gradients-flushed"));
  facts = WithTinyBias();
  for (Measured& point : facts.profile.series[1].points) point.absmax = 0;  // no other one lives
  EXPECT_TRUE(Fires(facts, "gradients-flushed"));
}

TEST(LostUpdates, FrozenInHalfPrecisionWeights) {
  Facts facts = Recorded("bf16");
  AddSeries(facts, "w", runs::kWeight, "bfloat16", {{0, 1}, {10, 1}});
  Series& update = AddSeries(facts, "w", runs::kUpdate, "bfloat16", {{0, 1e-6}, {10, 1e-6}});
  update.layer_id = facts.profile.series[0].layer_id;
  for (Measured& point : update.points) point.frozen = 900;
  EXPECT_TRUE(Fires(facts, "frozen-updates"));
  for (Measured& point : facts.profile.series[1].points) point.frozen = 300;
  EXPECT_FALSE(Fires(facts, "frozen-updates"));
  for (Measured& point : facts.profile.series[1].points) point.frozen = 900;
  facts.profile.series[0].dtype = "float32";  // small, and it adds up
  EXPECT_FALSE(Fires(facts, "frozen-updates"));
}

TEST(PoisonedBuffer, ARunningStatisticThatIsNotFinite) {
  Facts facts = Recorded("fp16");
  Series& mean =
      AddSeries(facts, "bn.running_mean", runs::kWeight, "float32", {{0, 1}, {10, 1.5}}, "buffer");
  EXPECT_FALSE(Fires(facts, "poisoned-buffer"));
  mean.points[1].nonfinite = 4;
  EXPECT_TRUE(Fires(facts, "poisoned-buffer"));
  mean.points[1].nonfinite = 0;
  mean.points[1].absmax = 5000;
  EXPECT_TRUE(Fires(facts, "poisoned-buffer"));
  facts.profile.series[0].layer = "mask";
  EXPECT_FALSE(Fires(facts, "poisoned-buffer"));
}

TEST(DeadUnits, ReluThatGivesNothingForEveryInput) {
  Facts facts = Recorded("fp32");
  Zero(AddSeries(facts, "act", runs::kActivation, "float32", {{0, 1}, {10, 1}, {20, 1}}, "ReLU"),
       1.0);
  EXPECT_TRUE(Fires(facts, "dead-units"));
  Zero(facts.profile.series[0], 0.9);  // sparse, as many are
  EXPECT_FALSE(Fires(facts, "dead-units"));
  Zero(facts.profile.series[0], 1.0);
  facts.profile.series[0].type = "Dropout";
  EXPECT_FALSE(Fires(facts, "dead-units"));
}

// A module that takes a tensor with this figure and gives one with that, and the gradient of its
// weight; several in a row are a path where each takes what the one before gave.
void AddMatrix(Facts& facts, const std::string& name, double takes, double gives, double gradient) {
  AddSeries(facts, name, runs::kInput, "float32", {{0, takes}});
  AddSeries(facts, name, runs::kActivation, "float32", {{0, gives}});
  AddSeries(facts, name + ".weight", runs::kGradient, "float32", {{0, gradient}});
}

Facts Sampled() {
  Facts facts = Recorded("fp32");
  facts.profile.steps = {0};
  return facts;
}

TEST(FadingGradient, FromTheOutputToTheInput) {
  Facts facts = Sampled();
  double gradient = 1e-9;
  for (int i = 0; i < 5; ++i, gradient *= 20) {
    AddMatrix(facts, std::to_string(2 * i), 1 + i, 2 + i, gradient);
  }
  EXPECT_TRUE(Fires(facts, "fading-gradient"));
  for (Series& series : facts.profile.series) {
    if (series.kind == runs::kGradient) series.points[0].rms = 0.1;
  }
  facts.profile.series[2].points[0].rms = 1e-6;  // one layer alone
  EXPECT_FALSE(Fires(facts, "fading-gradient"));
}

TEST(FadingGradient, TwoNetsThatShareNoPathAreNotOneBehindTheOther) {
  Facts facts = Sampled();
  double gradient = 1e-6;
  // Both take the state; what the actor gives goes to nobody.
  for (const std::string net : {"actor", "critic"}) {
    double takes = 1;
    for (const std::string layer : {".0", ".2", ".4"}) {
      const double gives = (net == "actor" ? 10 : 20) * (takes + 1);
      AddMatrix(facts, net + layer, takes, gives, gradient);
      takes = gives;
      gradient *= 20;
    }
  }
  EXPECT_FALSE(Fires(facts, "fading-gradient"));
  // The same figures where the critic takes what the actor gives.
  for (Series& series : facts.profile.series) {
    if (series.kind != runs::kInput || series.layer != "critic.0") continue;
    for (const Series& given : facts.profile.series) {
      if (given.kind == runs::kActivation && given.layer == "actor.4") series.points = given.points;
    }
  }
  EXPECT_TRUE(Fires(facts, "fading-gradient"));
}

TEST(FadingGradient, AHeadThatBeginsNearZeroIsAnotherMatter) {
  Facts facts = Sampled();
  int i = 0;
  for (const double gradient : {2.7e-5, 2.8e-5, 3e-5, 0.04}) {
    AddMatrix(facts, std::to_string(2 * i), 1 + i, 2 + i, gradient);
    ++i;
  }
  EXPECT_FALSE(Fires(facts, "fading-gradient"));
}

TEST(Adversary, AGeneratorThatGetsNothingAnyMore) {
  Facts facts = Recorded("fp32");
  AddSeries(facts, "generator.0.weight", runs::kGradient, "float32", {{0, 1}, {90, 1e-4}});
  AddSeries(facts, "discriminator.0.weight", runs::kGradient, "float32", {{0, 1}, {90, 1e-4}});
  EXPECT_TRUE(Fires(facts, "adversary-won"));
  facts.profile.series[0].points[1].rms = 0.5;
  EXPECT_FALSE(Fires(facts, "adversary-won"));
  facts.profile.series[0].points[1].rms = 1e-4;
  facts.profile.series[1].layer = "decoder.0.weight";  // nobody to lose against
  EXPECT_FALSE(Fires(facts, "adversary-won"));
}

}  // namespace
}  // namespace mpnanny::diagnosis
