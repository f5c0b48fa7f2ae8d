#include "numerics/logprob_mismatch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "numerics/format.h"
#include "numerics/tensor_view.h"

namespace mpnanny {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

LogprobPair PairOf(const std::vector<double>& trainer, const std::vector<double>& rollout,
                   int64_t rows = 1) {
  LogprobPair pair;
  pair.rows = rows;
  pair.length = static_cast<int64_t>(trainer.size()) / rows;
  pair.trainer = trainer;
  pair.rollout = rollout;
  return pair;
}

const MismatchGroup* Find(const LogprobMismatch& found, MismatchBy by, int64_t from) {
  for (const MismatchGroup& group : found.groups) {
    if (group.by == by && group.from == from) return &group;
  }
  return nullptr;
}

TEST(LogprobMismatch, EmptyAndAllMaskedHaveNoTokens) {
  EXPECT_EQ(CompareLogprobs({}).tokens, 0);
  const std::vector<double> a = {-1, -2}, mask = {0, 0};
  LogprobPair pair = PairOf(a, a);
  pair.mask = mask;
  const auto found = CompareLogprobs(pair);
  EXPECT_EQ(found.tokens, 0);
  EXPECT_TRUE(found.groups.empty());
  EXPECT_EQ(found.rms, 0);
}

TEST(LogprobMismatch, FiguresAreThoseOfTheirDefinitions) {
  const std::vector<double> a = {-1.0, -2.5, -0.1, -8.0}, b = {-1.2, -2.5, -0.05, -7.0};
  const auto found = CompareLogprobs(PairOf(a, b));
  const std::vector<double> d = {0.2, 0, -0.05, -1.0};
  double sum = 0, squares = 0, k3 = 0;
  for (const double x : d) {
    sum += x;
    squares += x * x;
    k3 += std::exp(x) - 1 - x;
  }
  EXPECT_EQ(found.tokens, 4);
  EXPECT_NEAR(found.mean, sum / 4, 1e-12);
  EXPECT_NEAR(found.k1(), -sum / 4, 1e-12);
  EXPECT_NEAR(found.rms, std::sqrt(squares / 4), 1e-12);
  EXPECT_NEAR(found.k3, k3 / 4, 1e-12);
  EXPECT_NEAR(found.largest, 1.0, 1e-12);
  EXPECT_NEAR(found.beyond, 0.25, 1e-12);
  EXPECT_NEAR(found.equal, 0.25, 1e-12);
  EXPECT_NEAR(found.positive, 1.0 / 3, 1e-12);
  ASSERT_EQ(found.worst.size(), 4u);
  EXPECT_EQ(found.worst[0].place, 3);
  EXPECT_EQ(found.worst[1].place, 0);
}

TEST(LogprobMismatch, EqualSidesHaveNoDirectionAndTokensWithoutIdsNoId) {
  const std::vector<double> a = {-1, -2};
  const auto found = CompareLogprobs(PairOf(a, a));
  EXPECT_EQ(found.positive, 0);
  EXPECT_EQ(found.equal, 1);
  ASSERT_EQ(found.worst.size(), 2u);
  EXPECT_EQ(found.worst[0].token, -1);
}

TEST(LogprobMismatch, WhatIsNotFiniteIsCountedBySideAndLeftOut) {
  const std::vector<double> a = {-1, kNan, -1, -kInf}, b = {-1, -1, -kInf, -kInf};
  const auto found = CompareLogprobs(PairOf(a, b));
  EXPECT_EQ(found.tokens, 1);
  EXPECT_EQ(found.bad_trainer, 2);
  EXPECT_EQ(found.bad_rollout, 2);
  EXPECT_EQ(found.rms, 0);
}

TEST(LogprobMismatch, MaskedTokensMayHoldAnything) {
  const std::vector<double> a = {kNan, -1, -1}, b = {0, -1, -1}, mask = {0, 1, 1};
  LogprobPair pair = PairOf(a, b);
  pair.mask = mask;
  const auto found = CompareLogprobs(pair);
  EXPECT_EQ(found.bad_trainer, 0);
  EXPECT_EQ(found.tokens, 2);
  // The answer begins where the mask does.
  EXPECT_EQ(Find(found, MismatchBy::kAnswerStart, 1)->tokens, 2);
  EXPECT_EQ(Find(found, MismatchBy::kAnswer, 0)->tokens, 1);
}

TEST(LogprobMismatch, DocumentsComeOutOfPositionsThatFall) {
  const std::vector<double> a = {-1, -1, -1, -1, -1}, b = {-1, -1, -2, -2, -2},
                            position = {0, 1, 0, 1, 2};
  LogprobPair pair = PairOf(a, b);
  pair.position = position;
  const auto found = CompareLogprobs(pair);
  EXPECT_EQ(Find(found, MismatchBy::kDocument, 0)->rms, 0);
  EXPECT_EQ(Find(found, MismatchBy::kDocument, 1)->tokens, 3);
  EXPECT_EQ(Find(found, MismatchBy::kDocument, 1)->rms, 1);
  EXPECT_EQ(Find(found, MismatchBy::kAfterBoundary, 0)->tokens, 1);
  EXPECT_EQ(Find(found, MismatchBy::kAnswer, 0)->tokens, 2);
}

TEST(LogprobMismatch, ANeighboursValueIsCompared) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> draw(-5, -0.1);
  std::vector<double> a(40), b(40);
  for (double& x : a) x = draw(random);
  for (size_t i = 1; i < a.size(); ++i) b[i] = a[i - 1];
  b[0] = -1;
  const auto found = CompareLogprobs(PairOf(a, b));
  EXPECT_GT(found.rms, 0.5);
  EXPECT_NEAR(found.rms_after, 0, 1e-12);
  EXPECT_GT(found.rms_before, 0.5);
}

TEST(LogprobMismatch, GridsAreFoundOnTheSideThatHasThem) {
  std::mt19937 random(2);
  std::uniform_real_distribution<double> draw(-9, -0.01);
  std::vector<double> a(200), bf16(200), fp16(200);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = draw(random);
    bf16[i] = RoundTo(Format::kBf16, a[i]);
    fp16[i] = RoundTo(Format::kFp16, a[i]);
  }
  EXPECT_EQ(CompareLogprobs(PairOf(a, bf16)).rollout_grid, static_cast<int64_t>(DType::kBFloat16));
  EXPECT_EQ(CompareLogprobs(PairOf(a, bf16)).trainer_grid, 0);
  EXPECT_EQ(CompareLogprobs(PairOf(fp16, a)).trainer_grid, static_cast<int64_t>(DType::kFloat16));
  // Zeros and powers of two lie on every grid.
  const std::vector<double> plain(200, -0.5);
  EXPECT_EQ(CompareLogprobs(PairOf(plain, plain)).rollout_grid, 0);
}

// Distributions over 30 words at two temperatures, by an exact softmax.
TEST(LogprobMismatch, ATemperatureIsFittedFromLogprobsAlone) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal(0, 3);
  for (const double temperature : {0.6, 0.8, 1.3}) {
    std::vector<double> a, b;
    for (int token = 0; token < 600; ++token) {
      std::vector<double> logits(30), cool(30);
      double sum = 0, cool_sum = 0;
      for (int i = 0; i < 30; ++i) {
        logits[i] = normal(random);
        cool[i] = logits[i] / temperature;
        sum += std::exp(logits[i]);
        cool_sum += std::exp(cool[i]);
      }
      for (double& x : cool) x = std::exp(x) / cool_sum;
      const int chosen = std::discrete_distribution<int>(cool.begin(), cool.end())(random);
      a.push_back(logits[chosen] - std::log(sum));
      b.push_back(std::log(cool[chosen]));
    }
    const auto found = CompareLogprobs(PairOf(a, b));
    EXPECT_NEAR(found.temperature, temperature, 0.12 * temperature);
    EXPECT_LT(found.temperature_rest, 0.7 * found.rms);
  }
}

TEST(LogprobMismatch, WithoutANoticeableTemperatureItIsOne) {
  std::mt19937 random(4);
  std::uniform_real_distribution<double> draw(-6, -0.01);
  std::normal_distribution<double> noise(0, 0.02);
  std::vector<double> a(400), b(400);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = draw(random);
    b[i] = std::min(0.0, a[i] + noise(random));
  }
  const auto found = CompareLogprobs(PairOf(a, b));
  EXPECT_NEAR(found.temperature, 1, 0.02);
  EXPECT_GT(found.temperature_rest, 0.9 * found.rms);
}

TEST(AtTemperature, IsTheExactSoftmaxOfEqualOthers) {
  // One token of logit 2 and four of 0.
  const double own = 2 - std::log(std::exp(2.0) + 4);
  for (const double t : {0.5, 1.0, 2.0}) {
    EXPECT_NEAR(AtTemperature(own, t, 4), 2 / t - std::log(std::exp(2 / t) + 4), 1e-12);
  }
  EXPECT_EQ(AtTemperature(0, 0.5, 3), 0);
  EXPECT_TRUE(std::isfinite(AtTemperature(-800, 0.5, 3)));
  EXPECT_TRUE(std::isfinite(AtTemperature(-5e-324, 0.5, 3)));
}

TEST(LogprobMismatch, ErrorsOfWhatIsNearlyCertainAreHidden) {
  const std::vector<double> a = {-1e-4, -1e-4, -1e-4}, b = {-2e-4, -1e-4, -1e-4};
  const auto found = CompareLogprobs(PairOf(a, b));
  EXPECT_LT(found.exposure, 1e-3);
  EXPECT_GT(found.LogitError(), 0.3);
}

TEST(LogprobMismatch, OfFewNeighboursNothingIsReported) {
  const std::vector<double> few(16, -1), enough(17, -1);
  EXPECT_TRUE(std::isnan(CompareLogprobs(PairOf(few, few)).rms_before));
  EXPECT_EQ(CompareLogprobs(PairOf(enough, enough)).rms_before, 0);
}

TEST(LogprobMismatch, RowsThatAreNearlyCertainSayNothingOfTheirLogits) {
  // Errors of a logit of 0.1, 0.2 and 0.4, and a row that is all but certain.
  std::vector<double> a, b;
  for (const double error : {0.2, 0.1, 0.4, 3.0}) {
    for (int i = 0; i < 8; ++i) {
      b.push_back(error == 3.0 ? -1e-3 : std::log(0.25));
      a.push_back(b.back() + (i % 2 == 0 ? 1 : -1) * error * (1 - std::exp(b.back())));
    }
  }
  const auto found = CompareLogprobs(PairOf(a, b, 4));
  EXPECT_EQ(found.rows, 3);
  EXPECT_NEAR(found.row_least, 0.1, 1e-9);
  EXPECT_NEAR(found.row_median, 0.2, 1e-9);
  EXPECT_NEAR(found.row_largest, 0.4, 1e-9);
  const std::vector<double> certain(4, 0.0);
  const auto none = CompareLogprobs(PairOf(certain, certain));
  EXPECT_EQ(none.rows, 0);
  EXPECT_TRUE(std::isnan(none.row_least));
}

// Log-probabilities above 0, which rounding makes, are no probabilities: no temperature is fitted
// to them.
TEST(LogprobMismatch, ATemperatureIsFittedToProbabilitiesAlone) {
  const std::vector<double> a = {0.5, 0.5, -1, 0.1}, b = {-1, 0.1, 0.5, -2};
  const auto found = CompareLogprobs(PairOf(a, b));
  EXPECT_EQ(found.tokens, 4);
  EXPECT_TRUE(std::isnan(found.temperature));
  EXPECT_TRUE(std::isnan(found.temperature_rest));
}

TEST(LogprobMismatch, PositionsAndIdsMayBeAnything) {
  const std::vector<double> a(4, -1), bad = {kNan, kInf, -1e300, 1e19};
  LogprobPair pair = PairOf(a, a);
  pair.position = bad;
  pair.token = bad;
  const auto found = CompareLogprobs(pair);
  EXPECT_EQ(found.tokens, 4);
  EXPECT_EQ(Find(found, MismatchBy::kPosition, 0)->tokens, 4);
  EXPECT_EQ(found.worst[0].token, -1);
}

}  // namespace
}  // namespace mpnanny
