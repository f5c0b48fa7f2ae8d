// Places and ticks of axes, over values that people have and values that break arithmetic.
#include "engines/pictures/axes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace mpnanny::pictures {
namespace {

constexpr double kHuge = std::numeric_limits<double>::max();
constexpr double kTiny = std::numeric_limits<double>::denorm_min();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Scale, PutsTheEndsAtTheEnds) {
  const Scale linear{2, 10, false}, logarithmic{1e-8, 65504, true};
  EXPECT_DOUBLE_EQ(linear.Along(2), 0);
  EXPECT_DOUBLE_EQ(linear.Along(6), 0.5);
  EXPECT_DOUBLE_EQ(logarithmic.Along(65504), 1);
  EXPECT_NEAR(logarithmic.Along(std::sqrt(1e-8 * 65504)), 0.5, 1e-12);
}

TEST(Scale, HasNoPlaceForWhatItCannotShow) {
  EXPECT_TRUE(std::isnan(Scale({0, 1, false}).Along(kNan)));
  EXPECT_TRUE(std::isnan(Scale({0, 1, false}).Along(HUGE_VAL)));
  EXPECT_TRUE(std::isnan(Scale({1, 10, true}).Along(0)));
  EXPECT_TRUE(std::isnan(Scale({1, 10, true}).Along(-3)));
}

TEST(ScaleBetween, HoldsBothEndsWithRoom) {
  for (const auto& [least, greatest] : std::initializer_list<std::pair<double, double>>{
           {0, 1}, {5, 5}, {0, 0}, {-3, 7}, {1e-30, 2e-30}, {-kHuge, kHuge}, {kTiny, kHuge}}) {
    for (const bool logarithmic : {false, true}) {
      const Scale scale = ScaleBetween(least, greatest, logarithmic);
      ASSERT_TRUE(std::isfinite(scale.from) && std::isfinite(scale.to)) << least << ' ' << greatest;
      EXPECT_LT(scale.from, scale.to) << least << ' ' << greatest;
    }
  }
  const Scale scale = ScaleBetween(1, 100, true);
  EXPECT_TRUE(scale.logarithmic);
  EXPECT_GT(scale.Along(1), 0);
  EXPECT_LT(scale.Along(100), 1);
  EXPECT_FALSE(ScaleBetween(0, 100, true).logarithmic);
}

TEST(Ticks, AreRoundAndOnTheScale) {
  EXPECT_EQ(Ticks({0, 10, false}, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(Ticks({-0.25, 0.25, false}, 5).front(), -0.2);
  const auto powers = Ticks({0.5, 2000, true}, 8);
  EXPECT_EQ(powers, (std::vector<double>{1, 10, 100, 1000}));
}

TEST(Ticks, EndForEveryScale) {
  for (const Scale& scale :
       {Scale{-kHuge / 2, kHuge / 2, false}, Scale{1e300, 1e300 + 1e284, false},
        Scale{0, kTiny, false}, Scale{kTiny, kHuge, true}, Scale{1e9, 1e9 + 1e-6, false}}) {
    for (const double tick : Ticks(scale, 6)) {
      EXPECT_GE(tick, scale.from);
      EXPECT_LE(tick, scale.to);
    }
    EXPECT_LE(Ticks(scale, 6).size(), 14U);
  }
}

}  // namespace
}  // namespace mpnanny::pictures
