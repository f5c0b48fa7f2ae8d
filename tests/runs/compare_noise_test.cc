// The figures that compare_runs' limits are made from.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "engines/comparison/curve.h"
#include "engines/comparison/noise.h"

namespace mpnanny::comparison {
namespace {

std::vector<double> Normal(size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> draw;
  std::vector<double> values(count);
  for (double& value : values) value = draw(generator);
  return values;
}

TEST(NoiseTest, OwnVariationIsTheNoiseWithoutTheTrend) {
  std::vector<double> values = Normal(2000, 1);
  EXPECT_NEAR(OwnVariation(values.data(), values.size()), 1, 0.1);
  for (size_t i = 0; i < values.size(); ++i) values[i] += 50.0 * static_cast<double>(i);
  EXPECT_NEAR(OwnVariation(values.data(), values.size()), 1, 0.1);
  for (size_t i = 0; i < values.size(); i += 40) values[i] = 1e9;  // spikes
  EXPECT_NEAR(OwnVariation(values.data(), values.size()), 1, 0.2);
  for (size_t i = 0; i < values.size(); i += 3) values[i] = kNan;
  EXPECT_EQ(OwnVariation(values.data(), values.size()), 0) << "no three in a row";
  EXPECT_EQ(OwnVariation(values.data(), 2), 0);
}

TEST(NoiseTest, TheLimitHoldsTheLargestOfSoManyDraws) {
  for (const size_t count : {10u, 1000u, 100000u}) {
    const std::vector<double> values = Normal(count, 7);
    double largest = 0;
    for (const double value : values) largest = std::max(largest, std::fabs(value));
    EXPECT_LT(largest, LimitInDeviations(count));
    EXPECT_GT(largest + 3, LimitInDeviations(count)) << "and not by far";
  }
}

TEST(NoiseTest, CorrelatedDifferencesAreLessSure) {
  const std::vector<double> a(400, 1.0);
  std::vector<double> independent = Normal(400, 3), correlated = independent;
  for (size_t i = 1; i < 400; ++i) correlated[i] = 0.9 * correlated[i - 1] + correlated[i];
  const WindowDifference x = CompareWindows(a, independent), y = CompareWindows(a, correlated);
  EXPECT_NEAR(x.standard_error, 1 / std::sqrt(400.0), 0.01);
  EXPECT_GT(y.standard_error, 4 * x.standard_error);
  EXPECT_EQ(CompareWindows({1, kNan}, {kNan, 1}).count, 0u);
}

Curve Noisy(size_t count, unsigned seed_a, unsigned seed_b) {
  const std::vector<double> x = Normal(count, seed_a), y = Normal(count, seed_b);
  Curve curve;
  for (size_t i = 0; i < count; ++i) {
    const double level = 1 + 3 * std::exp(-static_cast<double>(i) / 150);
    curve.steps.push_back(static_cast<int64_t>(i));
    curve.a.push_back(level * (1 + 0.05 * x[i]));
    curve.b.push_back(level * (1 + 0.05 * y[i]));
  }
  return curve;
}

TEST(CurveTest, IndependentNoiseAroundOneLevelDoesNotPart) {
  int parted = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    parted += FindParting(Noisy(600, seed, seed + 1000), 30, 1e-7) ? 1 : 0;
  }
  EXPECT_LE(parted, 2);
}

TEST(CurveTest, AStepOfThreeDeviationsIsFoundWithinAWindow) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    Curve curve = Noisy(600, seed, seed + 1000);
    for (size_t i = 300; i < 600; ++i) curve.b[i] *= 1.15;
    const auto parting = FindParting(curve, 30, 1e-7);
    ASSERT_TRUE(parting) << seed;
    EXPECT_GE(parting->step, 270);
    EXPECT_LE(parting->step, 330);
    EXPECT_GT(parting->b, parting->a);
  }
}

TEST(CurveTest, RoundingIsNotParting) {
  const std::vector<double> x = Normal(600, 1), y = Normal(600, 2);
  Curve curve;
  for (size_t i = 0; i < 600; ++i) {
    curve.steps.push_back(static_cast<int64_t>(i));
    curve.a.push_back(2 + 1e-4 * x[i]);
    curve.b.push_back(2.008 + 1e-4 * y[i]);
  }
  EXPECT_TRUE(FindParting(curve, 30, 1e-7));
  EXPECT_FALSE(FindParting(curve, 30, 0.005));
}

TEST(CurveTest, ScalesPartWhenTheyStayApart) {
  Curve curve;
  for (int64_t i = 0; i < 100; ++i) {
    curve.steps.push_back(i);
    curve.a.push_back(65536);
    curve.b.push_back(i < 20 ? 65536 : i < 40 ? 32768 : i < 45 ? 1024 : i < 60 ? 65536 : 128);
  }
  const auto parting = FindScaleParting(curve, 10);
  ASSERT_TRUE(parting);
  EXPECT_EQ(parting->step, 60) << "five steps in between are chance";
}

TEST(CurveTest, EndingsOfShortCurves) {
  EXPECT_FALSE(CompareEndings({}, 20));
  EXPECT_FALSE(CompareEndings({{1, 2}, {kNan, 1}, {1, kNan}}, 20));
  const auto one = CompareEndings({{4}, {2}, {3}}, 20);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->last.a, 2);
  EXPECT_EQ(one->last.count, 1u);
  EXPECT_FALSE(FindParting({{4}, {2}, {2}}, 20, 0.01));
}

}  // namespace
}  // namespace mpnanny::comparison
