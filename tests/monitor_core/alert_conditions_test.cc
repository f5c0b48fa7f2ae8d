// When the conditions of monitor/core/alert_conditions.h fire, and when they do not.
#include "monitor/core/alert_conditions.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "monitor/core/alert_types.h"
#include "tests/monitor_core/observed.h"

namespace mpnanny {
namespace {

constexpr double kInfiniteLoss = std::numeric_limits<double>::infinity();
constexpr double kNanLoss = std::numeric_limits<double>::quiet_NaN();

// --- LOSS_SPIKE ---

std::string Spikes(const std::vector<double>& losses, int64_t warmup = 100) {
  LossSpikes spikes(warmup);
  std::string text;
  for (size_t i = 0; i < losses.size(); ++i) {
    StepFacts facts;
    facts.step = static_cast<int64_t>(i);
    facts.loss = losses[i];
    Alerts out;
    spikes.Step(facts, out);
    if (!out.empty()) text += (text.empty() ? "" : " ") + std::to_string(i);
  }
  return text;
}

// So many losses between 0.9 and 1.1 around `level`, with MAD 0.05 times it.
std::vector<double> Level(size_t count, double level = 1) {
  std::vector<double> losses;
  for (size_t i = 0; i < count; ++i)
    losses.push_back(level * (0.9 + 0.05 * static_cast<double>(i * 7 % 5)));
  return losses;
}

std::vector<double> With(std::vector<double> losses, size_t at, double value) {
  losses.at(at) = value;
  return losses;
}

TEST(LossSpikes, FiresBeyondTenMadAndNotBefore) {
  EXPECT_EQ(Spikes(Level(300)), "");
  EXPECT_EQ(Spikes(With(Level(300), 200, 1.45)), "");
  EXPECT_EQ(Spikes(With(Level(300), 200, 1.55)), "200");
  EXPECT_EQ(Spikes(With(Level(300), 200, 2.5)), "200");
}

TEST(LossSpikes, KnowsNothingWhileTheRunIsNew) {
  EXPECT_EQ(Spikes(With(Level(300), 99, 1000)), "");
  EXPECT_EQ(Spikes(With(Level(300), 100, 1000)), "100");
  EXPECT_EQ(Spikes(With(Level(300), 20, 1000), 20), "20");
}

TEST(LossSpikes, ALossThatHardlyVariesIsAllowedAFifth) {
  const std::vector<double> still(200, 1.0);  // MAD 0
  EXPECT_EQ(Spikes(With(still, 150, 1.19)), "");
  EXPECT_EQ(Spikes(With(still, 150, 1.21)), "150");
}

TEST(LossSpikes, ALossThatHasConvergedIsAllowedAShareOfItsStart) {
  std::vector<double> losses = Level(100, 2.0);
  for (size_t i = 0; i < 300; ++i) losses.push_back(1e-6 * (1 + static_cast<double>(i % 3)));
  EXPECT_EQ(Spikes(With(losses, 390, 0.09)), "");
  EXPECT_EQ(Spikes(With(losses, 390, 0.11)), "390");
}

TEST(LossSpikes, WhatHappensOftenIsTheRunsHabit) {
  std::vector<double> losses = Level(400);
  for (size_t i = 110; i < 400; i += 20) losses[i] = 3.0;
  EXPECT_EQ(Spikes(losses), "110 130 150");
}

TEST(LossSpikes, ALevelThatStaysIsTheNewNormal) {
  std::vector<double> losses = Level(150);
  for (double loss : Level(150, 4)) losses.push_back(loss);
  const std::string fired = Spikes(losses);
  EXPECT_TRUE(fired.starts_with("150 151 152"));
  EXPECT_EQ(fired.find(" 220"), std::string::npos);
}

TEST(LossSpikes, NegativeAndNonFiniteLossesAreNone) {
  std::vector<double> losses;
  for (double loss : Level(300)) losses.push_back(-loss);
  EXPECT_EQ(Spikes(losses), "");
  EXPECT_EQ(Spikes(With(losses, 200, std::numeric_limits<double>::infinity())), "");
  EXPECT_EQ(Spikes(With(losses, 200, 1.0)), "200");
}

// --- GRAD_EXPLOSION by norm ---

std::string Norms(const std::vector<double>& norms) {
  GradientConditions conditions(100);
  Alerts out;
  for (size_t i = 0; i < norms.size(); ++i) {
    StepFacts facts;
    facts.step = static_cast<int64_t>(i);
    facts.grad_norm = norms[i];
    conditions.Norm(facts, out);
  }
  return Types(out);
}

TEST(GradientConditions, ANormIsMeasuredByItsMedian) {
  EXPECT_EQ(Norms(Level(300)), "");
  EXPECT_EQ(Norms(With(Level(300), 250, 110)), "GRAD_EXPLOSION");
  EXPECT_EQ(Norms(With(Level(300), 250, 90)), "");
  EXPECT_EQ(Norms(With(Level(300), 250, 5e-4)), "GRAD_VANISH");
  EXPECT_EQ(Norms(With(Level(300), 250, 5e-3)), "");
  EXPECT_EQ(Norms(With(Level(300), 50, 1e6)), "");
}

// What fires at the last of the norms, after `warmup` of them.
Alerts AtTheLast(const std::vector<double>& norms, int64_t warmup = 100, bool skipped = false) {
  GradientConditions conditions(warmup);
  Alerts out;
  for (size_t i = 0; i < norms.size(); ++i) {
    out.clear();
    StepFacts facts;
    facts.step = static_cast<int64_t>(i);
    facts.grad_norm = norms[i];
    facts.skipped = skipped && i + 1 == norms.size();
    conditions.Norm(facts, out);
  }
  return out;
}

std::vector<double> Then(std::vector<double> norms, const std::vector<double>& more) {
  norms.insert(norms.end(), more.begin(), more.end());
  return norms;
}

TEST(GradientConditions, AnExplosionIsFarFromTheMedianAndFromTheStart) {
  // A run that has converged: from 50 to 0.1. A hundred times that is not what it began with.
  std::vector<double> norms = Then(std::vector<double>(100, 50), std::vector<double>(300, 0.1));
  EXPECT_EQ(Types(AtTheLast(Then(norms, {499}))), "");
  const Alerts fired = AtTheLast(Then(norms, {501}));
  ASSERT_EQ(Types(fired), "GRAD_EXPLOSION");
  EXPECT_EQ(fired[0].step, 400);
  EXPECT_EQ(fired[0].phase, Phase::kBackward);
  EXPECT_EQ(fired[0].value, 501);
  EXPECT_EQ(fired[0].threshold, 500);
  EXPECT_EQ(fired[0].message, "The global gradient norm is 501, 5.01e+03 times its median of 0.1.");
  // Only the warm-up is the start: a high norm later does not lift the bound.
  EXPECT_EQ(Types(AtTheLast(Then(norms, {499, 0.1, 501}))), "GRAD_EXPLOSION");
  // A run that has grown is measured by where it is.
  norms = Then(std::vector<double>(100, 0.1), std::vector<double>(300, 50));
  EXPECT_EQ(Types(AtTheLast(Then(norms, {4999}))), "");
  EXPECT_EQ(Types(AtTheLast(Then(norms, {5001}))), "GRAD_EXPLOSION");
}

TEST(GradientConditions, ANormVanishesBelowAThousandthOfTheMedian) {
  const std::vector<double> norms(100, 4);
  const Alerts fired = AtTheLast(Then(norms, {0.0039}));
  ASSERT_EQ(Types(fired), "GRAD_VANISH");
  EXPECT_EQ(fired[0].value, 0.0039);
  EXPECT_EQ(fired[0].threshold, 0.004);
  EXPECT_EQ(fired[0].phase, Phase::kBackward);
  EXPECT_EQ(Types(AtTheLast(Then(norms, {0.0041}))), "");
  EXPECT_EQ(Types(AtTheLast(Then(norms, {0}))), "");
  EXPECT_EQ(Types(AtTheLast(Then(std::vector<double>(100, 0), {1}))), "");
}

TEST(GradientConditions, NormsAreKnownAfterTheWarmUpAndOfStepsThatWereTaken) {
  EXPECT_EQ(Types(AtTheLast(Then(std::vector<double>(99, 1), {1000}))), "");
  EXPECT_EQ(Types(AtTheLast(Then(std::vector<double>(100, 1), {1000}))), "GRAD_EXPLOSION");
  EXPECT_EQ(Types(AtTheLast({1000}, 0)), "");
  EXPECT_EQ(Types(AtTheLast({1, 1000}, 0)), "GRAD_EXPLOSION");
  EXPECT_EQ(Types(AtTheLast(Then(std::vector<double>(100, 1), {1000}), 100, true)), "");
  EXPECT_EQ(Types(AtTheLast(Then(std::vector<double>(100, 1), {kInfiniteLoss}))), "");
  EXPECT_EQ(Types(AtTheLast(Then(std::vector<double>(100, 1), {kNanLoss}))), "");
}

// --- GRAD_EXPLOSION and GRAD_VANISH by magnitude ---

TEST(GradientConditions, MagnitudesHaveBoundsOfTheirOwn) {
  const auto fired = [](double absmax) {
    Alerts out;
    GradientConditions(100).Magnitude(7, absmax, 3, "head", out);
    return out;
  };
  for (const double quiet : {0.0, 1e-8, 1.0, 1e4}) EXPECT_EQ(Types(fired(quiet)), "") << quiet;
  const Alerts large = fired(10'001);
  ASSERT_EQ(Types(large), "GRAD_EXPLOSION");
  EXPECT_EQ(large[0].step, 7);
  EXPECT_EQ(large[0].layer, 3);
  EXPECT_EQ(large[0].value, 10'001);
  EXPECT_EQ(large[0].threshold, 1e4);
  EXPECT_TRUE(large[0].kind == TensorKind::kGradient);
  EXPECT_NE(large[0].message.find("head"), std::string::npos);
  const Alerts small = fired(9e-9);
  ASSERT_EQ(Types(small), "GRAD_VANISH");
  EXPECT_FALSE(small[0].layer);  // of the whole model
  EXPECT_EQ(small[0].value, 9e-9);
  EXPECT_EQ(small[0].threshold, 1e-8);
  EXPECT_TRUE(small[0].kind == TensorKind::kGradient);
}

TEST(LossSpikes, ASpikeIsToldWithItsBound) {
  LossSpikes spikes(0);
  Alerts out;
  StepFacts facts;
  for (const double loss : {2.0, 2.3, 2.5}) {
    facts.loss = loss;
    spikes.Step(facts, out);
    ++facts.step;
  }
  // The first loss is the whole history of the second: a fifth more is allowed.
  ASSERT_EQ(Types(out), "");
  facts.loss = 9;
  spikes.Step(facts, out);
  ASSERT_EQ(Types(out), "LOSS_SPIKE");
  EXPECT_EQ(out[0].step, 3);
  EXPECT_EQ(out[0].phase, Phase::kLoss);
  EXPECT_EQ(out[0].value, 9);
  EXPECT_GT(out[0].threshold, 2.5);
  EXPECT_LT(out[0].threshold, 9);
  EXPECT_EQ(Spikes({2, 9}, 0), "1");
  EXPECT_EQ(Spikes({9, 2}, 0), "");
}

// --- LOSS_NAN ---

// A step of an infinite loss that the search for a scale explains.
StepFacts OfTheSearch() {
  StepFacts facts;
  facts.loss = kInfiniteLoss;
  facts.scale = 65536;
  facts.skipped = true;
  return facts;
}

Alerts OfLoss(const StepFacts& facts, const ScaleConditions& scale = {}) {
  Alerts out;
  LossCondition(facts, scale, out);
  return out;
}

TEST(LossCondition, OnlyALossThatIsNotFiniteFires) {
  StepFacts facts;
  EXPECT_EQ(Types(OfLoss(facts)), "");
  facts.loss = 1e300;
  EXPECT_EQ(Types(OfLoss(facts)), "");
  for (const double bad : {kNanLoss, kInfiniteLoss, -kInfiniteLoss}) {
    facts.loss = bad;
    EXPECT_EQ(Types(OfLoss(facts)), "LOSS_NAN");
  }
}

TEST(LossCondition, WhereItWasMadeAndWhatIsTold) {
  const struct {
    double loss;
    bool forward_bad;
    const char* word;
    const char* made;
  } kTable[] = {
      {kNanLoss, false, "NaN", R"("made":["nan"])"},
      {kInfiniteLoss, false, "infinite", R"("made":["posinf"])"},
      {-kInfiniteLoss, true, "infinite", R"("made":["neginf"])"},
      {kNanLoss, true, "NaN", R"("made":["nan"])"},
  };
  for (const auto& row : kTable) {
    StepFacts facts;
    facts.step = 9;
    facts.loss = row.loss;
    facts.forward_nonfinite = row.forward_bad;
    const Alerts fired = OfLoss(facts);
    ASSERT_EQ(fired.size(), 1u);
    EXPECT_EQ(fired[0].step, 9);
    EXPECT_EQ(fired[0].phase, Phase::kLoss);
    EXPECT_EQ(fired[0].producer, row.forward_bad ? 0 : 1);
    EXPECT_TRUE(fired[0].message.starts_with(std::string("The loss is ") + row.word));
    EXPECT_EQ(
        fired[0].message.find("had already come out of the forward pass") != std::string::npos,
        row.forward_bad);
    EXPECT_NE(fired[0].detail.find(row.made), std::string::npos) << fired[0].detail;
    EXPECT_NE(fired[0].detail.find(row.forward_bad ? "carried" : R"("loss")"), std::string::npos);
  }
}

TEST(LossCondition, AnInfiniteLossOfTheSearchForAScaleIsLeftOut) {
  EXPECT_EQ(Types(OfLoss(OfTheSearch())), "");
  StepFacts facts = OfTheSearch();
  facts.loss = -kInfiniteLoss;
  EXPECT_EQ(Types(OfLoss(facts)), "");
  facts.loss = kNanLoss;  // no scale makes NaN of a finite loss
  EXPECT_EQ(Types(OfLoss(facts)), "LOSS_NAN");
  facts = OfTheSearch();
  facts.skipped = false;
  EXPECT_EQ(Types(OfLoss(facts)), "LOSS_NAN");
  facts = OfTheSearch();
  facts.forward_nonfinite = true;
  EXPECT_EQ(Types(OfLoss(facts)), "LOSS_NAN");
  facts = OfTheSearch();
  facts.scale.reset();
  EXPECT_EQ(Types(OfLoss(facts)), "LOSS_NAN");
  ScaleConditions scale;
  Alerts none;
  for (int i = 0; i < 4; ++i) scale.Step(OfTheSearch(), none);
  EXPECT_EQ(Types(OfLoss(OfTheSearch(), scale)), "");
  scale.Step(OfTheSearch(), none);  // the fifth skip in a row
  EXPECT_EQ(Types(OfLoss(OfTheSearch(), scale)), "LOSS_NAN");
  ScaleConditions found;
  facts = OfTheSearch();
  facts.skipped = false, facts.has_gradients = true;
  for (int i = 0; i < 10; ++i) found.Step(facts, none);
  EXPECT_EQ(Types(OfLoss(OfTheSearch(), found)), "LOSS_NAN");
}

// --- LOGPROB_MISMATCH ---

Alerts OfLogprobs(const LogprobFacts& facts) {
  Alerts out;
  LogprobCondition(7, facts, out);
  return out;
}

TEST(LogprobCondition, FiresBeyondItsBoundsAndSaysByWhichFigure) {
  EXPECT_TRUE(OfLogprobs({.tokens = 1000, .k3 = 0.01, .beyond = 0.005}).empty());
  const Alerts by_k3 = OfLogprobs({.tokens = 1000, .k3 = 0.011, .beyond = 0.004});
  ASSERT_EQ(Types(by_k3), "LOGPROB_MISMATCH");
  EXPECT_EQ(by_k3[0].severity, Severity::kWarning);
  EXPECT_EQ(by_k3[0].value, 0.011);
  EXPECT_EQ(by_k3[0].step, 7);
  const Alerts by_share = OfLogprobs({.tokens = 1000, .k3 = 0.002, .beyond = 0.006});
  ASSERT_EQ(Types(by_share), "LOGPROB_MISMATCH");
  EXPECT_EQ(by_share[0].value, 0.006);
  EXPECT_EQ(by_share[0].threshold, kMismatchBeyond);
}

TEST(LogprobCondition, IsAnErrorWhereUpdatesAreNoLongerThoseOfThePolicy) {
  EXPECT_EQ(OfLogprobs({.tokens = 10, .k3 = 0.11}).at(0).severity, Severity::kError);
  EXPECT_EQ(OfLogprobs({.tokens = 10, .beyond = 0.06}).at(0).severity, Severity::kError);
  EXPECT_EQ(OfLogprobs({.tokens = 10, .k3 = kInfiniteLoss}).at(0).severity, Severity::kError);
  const Alerts bad = OfLogprobs({.tokens = 10, .not_finite = 1});
  ASSERT_EQ(Types(bad), "LOGPROB_MISMATCH");
  EXPECT_EQ(bad[0].severity, Severity::kError);
  EXPECT_EQ(bad[0].value, 1);
}

}  // namespace
}  // namespace mpnanny
