// Forecasts of figures that grow: their step, and silence where nothing can be told.
#include "numerics/growth.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <utility>
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

// --- figures without chance, which can be worked out by hand ---

// Steps 0, 20, …, `until`.
template <typename F>
std::vector<GrowthPoint> Exactly(int until, F value) {
  return Points(until, 20, 0, value);
}

TEST(GrowthTest, WhatFollowsAModelExactlyIsToldExactly) {
  const auto factor = [](double step) { return kEnd * std::pow(1.005, step - 1000); };
  const auto by_factor = ForecastCrossing(Exactly(800, factor), kEnd);
  ASSERT_TRUE(by_factor);
  EXPECT_NEAR(by_factor->step, 1000, 1e-3);
  EXPECT_NEAR(by_factor->per_step, 0.005, 1e-6);

  const auto amount = [](double step) { return 5504 + 60.0 * step; };
  const auto by_amount = ForecastCrossing(Exactly(700, amount), kEnd);
  ASSERT_TRUE(by_amount);
  EXPECT_NEAR(by_amount->step, 1000, 1e-3);
  // Growth by a factor is there earlier, after the last point at 700, and pulls half its way.
  EXPECT_LT(by_amount->earliest, 980);
  EXPECT_GE(by_amount->earliest, 850);

  // Steps count from the first that was seen, as 1.
  const auto power = [](double step) { return kEnd * std::pow((step + 1) / 1001, 2); };
  const auto by_power = ForecastCrossing(Exactly(700, power), kEnd);
  ASSERT_TRUE(by_power);
  EXPECT_NEAR(by_power->step, 1000, 1e-3);
  EXPECT_LT(by_power->earliest, 990);

  for (const auto& crossing : {by_factor, by_amount, by_power}) {
    EXPECT_LE(crossing->earliest, crossing->step);
    EXPECT_GE(crossing->latest, crossing->step - 1e-6);
  }
}

TEST(GrowthTest, AStepIsToldAsTheRunNumbersIt) {
  const auto factor = [](double step) { return kEnd * std::pow(1.005, step - 1000); };
  auto points = Exactly(800, factor);
  for (GrowthPoint& each : points) each.step += 50'000;
  const auto crossing = ForecastCrossing(points, kEnd);
  ASSERT_TRUE(crossing);
  EXPECT_NEAR(crossing->step, 51'000, 1e-3);
  EXPECT_GE(crossing->earliest, 50'800);
  EXPECT_LT(crossing->earliest, 51'001);
  EXPECT_GE(crossing->latest, 51'000 - 1e-3);
  EXPECT_LT(crossing->latest, 52'000);
  EXPECT_NEAR(crossing->per_step, 0.005, 1e-6);
}

TEST(GrowthTest, TheUnitOfTheFigureIsOfNoConcern) {
  const auto factor = [](double step) { return std::pow(1.005, step - 1000); };
  const auto crossing = ForecastCrossing(Exactly(800, factor), 1);
  ASSERT_TRUE(crossing);
  EXPECT_NEAR(crossing->step, 1000, 1e-3);
}

TEST(GrowthTest, TheHighestOfScatteredValuesIsThereFirst) {
  const auto crossing = [](double scatter) {
    auto points = Exactly(800, [](double step) { return kEnd * std::pow(1.005, step - 1000); });
    for (size_t i = 0; i < points.size(); ++i) {
      points[i].value *= std::exp(i % 2 == 0 ? scatter : -scatter);
    }
    return ForecastCrossing(points, kEnd);
  };
  const auto narrow = crossing(0.05), wide = crossing(0.1);
  ASSERT_TRUE(narrow && wide);
  // A value 1.5 standard deviations above the trend is so many steps ahead of it.
  EXPECT_NEAR(narrow->step, 1000 - 1.5 * 0.05 / std::log(1.005), 3);
  EXPECT_NEAR(wide->step, 1000 - 1.5 * 0.1 / std::log(1.005), 6);
  // By so many steps the trend crosses the scatter, which is the least that is uncertain.
  for (const auto& [told, scatter] : {std::pair(narrow, 0.05), std::pair(wide, 0.1)}) {
    EXPECT_LT(told->earliest, told->step - 2 * scatter / std::log(1.005));
    EXPECT_GE(told->earliest, 800);  // it is not reached yet
    EXPECT_GT(told->latest, told->step + 2 * scatter / std::log(1.005));
    EXPECT_LT(told->latest, told->step + 20 * scatter / std::log(1.005));
  }
}

TEST(GrowthTest, TheFirstQuarterIsNotTheTrend) {
  const auto start = [](double share) {
    return ForecastCrossing(Exactly(780, [&](double step) {  // 40 points
                              const double value = kEnd * std::pow(1.005, step - 1000);
                              return step < 780 * share ? 7.0 : value;
                            }),
                            kEnd);
  };
  const auto crossing = start(0.25);
  ASSERT_TRUE(crossing);
  EXPECT_NEAR(crossing->step, 1000, 1e-3);
  const auto later = start(0.3);  // the start reaches into what is fitted
  EXPECT_TRUE(!later || std::fabs(later->step - 1000) > 1);
}

TEST(GrowthTest, TheBoundHasToBeWithinAsManyStepsAsWereSeen) {
  const auto reached_at = [](double end) {
    return ForecastCrossing(
        Exactly(800, [&](double step) { return kEnd * std::pow(1.005, step - end); }), kEnd);
  };
  EXPECT_TRUE(reached_at(1590));
  EXPECT_FALSE(reached_at(1610));
}

TEST(GrowthTest, ALittleGrowthIsNotTold) {
  // Fitted are 600 of the 800 steps; over them the figure grows so many times.
  const auto grows = [](double times) {
    return ForecastCrossing(
        Exactly(800, [&](double step) { return 0.95 * kEnd * std::pow(times, (step - 800) / 600); }),
        kEnd);
  };
  EXPECT_FALSE(grows(1.2));
  EXPECT_TRUE(grows(1.3));
}

TEST(GrowthTest, WhatSlowsDownIsNotTold) {
  // From the middle of what is fitted (steps 200 to 800) on it grows by a share of its amount a step.
  const auto slows_to = [](double share) {
    const auto value = [&](double step) {
      return 10'000 + (step < 500 ? 60 * step : 60 * (500 + share * (step - 500)));
    };
    return ForecastCrossing(Exactly(800, value), kEnd);
  };
  EXPECT_TRUE(slows_to(1));
  EXPECT_TRUE(slows_to(0.65));
  EXPECT_FALSE(slows_to(0.45));
}

TEST(GrowthTest, ScatterDoesNotMakeALineSlowDown) {
  auto points = Exactly(800, [](double step) { return 10'000 + 60 * step; });
  for (size_t i = 0; i < points.size(); ++i) points[i].value *= i % 2 == 0 ? 1.08 : 0.92;
  EXPECT_TRUE(ForecastCrossing(points, kEnd));
}

TEST(GrowthTest, NewValuesOfOneAndTheSameStepAreNoGrowth) {
  std::vector<GrowthPoint> points;
  for (int i = 0; i < 20; ++i) points.push_back({i * 20.0, 2 + i * 0.1});
  for (int i = 0; i < 20; ++i) points.push_back({400, 4.1 + i * 1e-4});
  EXPECT_FALSE(ForecastCrossing(points, 6.5));
}

TEST(GrowthTest, EightPointsAreEnough) {
  const auto factor = [](double step) { return kEnd * std::pow(1.005, step - 200); };
  EXPECT_FALSE(ForecastCrossing(Exactly(120, factor), kEnd));  // seven
  const auto crossing = ForecastCrossing(Exactly(140, factor), kEnd);
  ASSERT_TRUE(crossing);
  EXPECT_NEAR(crossing->step, 200, 1e-3);
}

TEST(GrowthTest, ABoundThatIsReachedIsNotAhead) {
  const auto factor = [](double step) { return kEnd * std::pow(1.005, step - 800); };
  EXPECT_FALSE(ForecastCrossing(Exactly(800, factor), kEnd));  // the last value is the bound
}

}  // namespace
}  // namespace mpnanny
