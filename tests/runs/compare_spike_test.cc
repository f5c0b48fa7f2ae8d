// Differences that means of windows do not show: single spikes, and gradient norms that differ by
// one factor where the losses are equal.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "engines/comparison/gradient_path.h"
#include "engines/comparison/spike.h"

namespace mpnanny::comparison {
namespace {

Curve Pair(size_t count, unsigned seed_a, unsigned seed_b, double noise = 0.05) {
  std::mt19937 x(seed_a), y(seed_b);
  std::normal_distribution<double> draw;
  Curve curve;
  for (size_t i = 0; i < count; ++i) {
    const double level = 1 + 3 * std::exp(-static_cast<double>(i) / 30);
    curve.steps.push_back(static_cast<int64_t>(i));
    curve.a.push_back(level * std::exp(noise * draw(x)));
    curve.b.push_back(level * std::exp(noise * draw(y)));
  }
  return curve;
}

TEST(CurveSpikeTest, AFewStepsOfOneRunAreFoundWhereverTheyAre) {
  for (const size_t at : {3u, 17u, 100u, 199u}) {
    Curve curve = Pair(200, 1, 2);
    for (size_t i = at; i < std::min<size_t>(at + 3, 200); ++i) curve.b[i] *= 17;
    const auto spike = FindSpike(curve, 1e-3);
    ASSERT_TRUE(spike) << at;
    EXPECT_GE(spike->step, static_cast<int64_t>(at));
    EXPECT_LE(spike->step, static_cast<int64_t>(at) + 2);
    EXPECT_EQ(spike->b, curve.b[static_cast<size_t>(spike->step)]) << "that step's, and no mean";
    EXPECT_FALSE(FindParting(curve, 10, 1e-3)) << "and the means of windows do not show it";
  }
}

TEST(CurveSpikeTest, NoiseAndSpikesOfBothAreNone) {
  int found = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    found += FindSpike(Pair(400, seed, seed + 1000, 0.15), 1e-3) ? 1 : 0;
  }
  EXPECT_LE(found, 2);
  Curve both = Pair(400, 1, 2);  // two seeds whose batches are hard at other steps
  for (size_t i = 20; i < 400; i += 60) both.a[i] *= 8;
  for (size_t i = 50; i < 400; i += 60) both.b[i] *= 9;
  EXPECT_FALSE(FindSpike(both, 1e-3));
  Curve apart = Pair(400, 1, 2);  // apart all along
  for (double& value : apart.b) value *= 5;
  EXPECT_FALSE(FindSpike(apart, 1e-3));
}

TEST(FirstPartingTest, ItsFiguresAreThatStepsOwn) {
  Curve curve = Pair(200, 1, 2, 0.01);
  for (size_t i = 60; i < 200; ++i) curve.b[i] *= 1.5 + 0.01 * static_cast<double>(i - 60);
  const auto parting = FindParting(curve, 10, 1e-3);
  ASSERT_TRUE(parting);
  EXPECT_EQ(parting->step, 60);
  EXPECT_EQ(parting->mean_of, 1u);
  EXPECT_EQ(parting->a, curve.a[60]);
  EXPECT_EQ(parting->b, curve.b[60]);
}

std::vector<Point> Points(double loss_b, double factor, double grows = 1) {
  std::vector<Point> points;
  for (int64_t step = 0; step < 30; ++step) {
    const double norm = 0.36 + 0.02 * static_cast<double>(step % 3);
    points.push_back({step, 1.78, loss_b, norm, norm * factor, 1, 1});
    factor *= grows;
  }
  return points;
}

TEST(NormFactorTest, EqualLossesAndNormsApartByOneFactor) {
  const auto found = FindNormFactor(Points(1.78, 0.37), 0.005);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 0);
  EXPECT_NEAR(found->factor, 0.37, 1e-9);
  EXPECT_NEAR(found->norm_b, 0.36 * 0.37, 1e-9);
  EXPECT_TRUE(FindNormFactor({Points(1.78, 0.37).front()}, 0.005)) << "the first step says it";
  EXPECT_FALSE(FindNormFactor(Points(1.78, 1.1), 0.005)) << "rounding of a deep model";
  EXPECT_FALSE(FindNormFactor(Points(1.9, 0.37), 0.005)) << "the forward passes differ";
  EXPECT_FALSE(FindNormFactor(Points(1.78, 1, 1.1), 0.005)) << "equal at first";
  EXPECT_FALSE(FindNormFactor({}, 0.005));
}

}  // namespace
}  // namespace mpnanny::comparison
