// Forecasts of figures that grow: their step, and silence where nothing can be told.
#include "numerics/growth.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace mpnanny {
namespace {

constexpr double kEnd = 65504;

// Points every `every` steps up to `until`, with a relative scatter.
template <typename F>
std::vector<GrowthPoint> Points(int until, int every, double scatter, F value, unsigned seed = 1) {
  std::mt19937 dice(seed);
  std::normal_distribution<double> normal;
  std::vector<GrowthPoint> points;
  for (int step = 0; step <= until; step += every) {
    points.push_back({static_cast<double>(step), value(step) * std::exp(scatter * normal(dice))});
  }
  return points;
}

TEST(GrowthTest, GrowthByAFactorIsToldAhead) {
  // 65504 at step 1000.
  const auto value = [](int step) { return kEnd * std::pow(1.005, step - 1000); };
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const auto crossing = ForecastCrossing(Points(800, 20, 0.05, value, seed), kEnd);
    ASSERT_TRUE(crossing) << seed;
    EXPECT_NEAR(crossing->step, 1000, 60) << seed;
    EXPECT_LE(crossing->earliest, crossing->step);
    EXPECT_GE(crossing->latest, crossing->step);
    EXPECT_NEAR(crossing->per_step, 0.005, 0.001);
  }
}

TEST(GrowthTest, GrowthByAnAmountIsToldAhead) {
  const auto value = [](int step) { return 5000 + 60.504 * step; };  // 65504 at step 1000
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const auto crossing = ForecastCrossing(Points(700, 20, 0.03, value, seed), kEnd);
    ASSERT_TRUE(crossing) << seed;
    EXPECT_NEAR(crossing->step, 1000, 150) << seed;
    EXPECT_LE(crossing->earliest, 1000 * 1.05) << seed;
    EXPECT_GE(crossing->latest, 1000 * 0.95) << seed;
  }
}

TEST(GrowthTest, WhatLevelsOffOrHoversOrFallsIsNotTold) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const auto none = [&](auto value, double scatter) {
      return !ForecastCrossing(Points(1000, 20, scatter, value, seed), kEnd);
    };
    EXPECT_TRUE(none([](int) { return 20000.0; }, 0.3)) << seed;
    EXPECT_TRUE(none([](int step) { return 40000 * std::pow(0.998, step); }, 0.1)) << seed;
    EXPECT_TRUE(none([](int step) { return 30000 * (1 - std::exp(-step / 150.0)) + 10; }, 0.03))
        << seed;
    EXPECT_TRUE(none([](int step) { return 10 + 100 * std::log1p(step); }, 0.05)) << seed;
    EXPECT_TRUE(none([](int step) { return 10 * std::sqrt(step + 1.0); }, 0.05)) << seed;
  }
}

TEST(GrowthTest, WhatIsFarAwayIsNotTold) {
  const auto value = [](int step) { return 10 * std::pow(1.001, step); };  // after 8,800 steps
  EXPECT_FALSE(ForecastCrossing(Points(1000, 20, 0, value), kEnd));
}

TEST(GrowthTest, FewPointsBadPointsAndBoundsThatArePassedAreNothing) {
  const auto value = [](int step) { return kEnd * std::pow(1.01, step - 200); };
  EXPECT_FALSE(ForecastCrossing({}, kEnd));
  EXPECT_FALSE(ForecastCrossing(Points(80, 20, 0, value), kEnd));
  EXPECT_FALSE(ForecastCrossing(Points(300, 20, 0, value), kEnd));  // it is beyond already
  std::vector<GrowthPoint> same(10, {5, 100});
  EXPECT_FALSE(ForecastCrossing(same, kEnd));
  auto points = Points(160, 10, 0, value);
  points.insert(points.begin() + 3, {30, std::numeric_limits<double>::quiet_NaN()});
  points.insert(points.begin() + 5, {40, std::numeric_limits<double>::infinity()});
  points.insert(points.begin() + 7, {50, 0});
  const auto crossing = ForecastCrossing(points, kEnd);
  ASSERT_TRUE(crossing);
  EXPECT_NEAR(crossing->step, 200, 1);
}

}  // namespace
}  // namespace mpnanny
