// When conditions of layers and samples fire, and when they do not; what rows become of them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "monitor/core/alert_book.h"
#include "monitor/core/alert_layers.h"
#include "monitor/core/alert_types.h"
#include "monitor/core/run_history.h"
#include "tests/monitor_core/observed.h"

namespace mpnanny {
namespace {

// --- history ---

// MakeAlert() takes a type's row by its number.
TEST(AlertDefinitions, StandInTheOrderOfTheEnum) {
  ASSERT_EQ(AlertDefinitions().size(), std::size(Vocabulary<AlertType>::kNames));
  for (size_t i = 0; i < AlertDefinitions().size(); ++i) {
    EXPECT_EQ(AlertDefinitions()[i].type, static_cast<AlertType>(i));
  }
}

TEST(RunHistory, MedianAndMadAreThoseOfTheWindow) {
  RunHistory history(5);
  for (double value : {100.0, 100.0, 1.0, 2.0, 3.0, 4.0, 50.0}) history.Add(value);
  EXPECT_EQ(history.Median(), 3);  // of 1 2 3 4 50
  EXPECT_EQ(history.Mad(3), 1);    // of 2 1 0 1 47
  EXPECT_EQ(history.Largest(1), 50);
  EXPECT_EQ(history.Largest(2), 4);
  EXPECT_EQ(history.Largest(99), 1);
  EXPECT_EQ(history.seen(), 7);
}

// --- DEAD_LAYER ---

class DeadLayersTest : public testing::Test {
 protected:
  std::string Sample(double first, double second) {
    Alerts out;
    const LayerGradient gradients[] = {{1, "a", first}, {2, "b", second}};
    dead_.Sample(step_++, gradients, out);
    return out.empty() ? "" : std::to_string(out[0].layer.value_or(-1));
  }
  DeadLayers dead_;
  int64_t step_ = 0;
};

TEST_F(DeadLayersTest, ThreeSamplesInARowAndNoneBetween) {
  EXPECT_EQ(Sample(1, 0), "");
  EXPECT_EQ(Sample(1, 9e-11), "");
  EXPECT_EQ(Sample(1, 2e-10), "");  // it lives, so the count starts again
  EXPECT_EQ(Sample(1, 0), "");
  EXPECT_EQ(Sample(1, 0), "");
  EXPECT_EQ(Sample(1, 0), "2");
  EXPECT_EQ(Sample(1, 0), "2");
}

TEST_F(DeadLayersTest, AModelThatIsDeadAltogetherIsNotOfOneLayer) {
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Sample(1e-9, 0), "");
}

// --- GRAD_VANISH of a layer ---

TEST(VanishingLayers, OneLayerBesideOthersThatAreAlive) {
  const auto fires = [](double first, double second) {
    Alerts out;
    const LayerGradient gradients[] = {{1, "a", first}, {2, "b", second}};
    VanishingLayers(7, gradients, out);
    return Types(out) + (out.empty() ? "" : " " + std::to_string(out[0].layer.value_or(-1)));
  };
  EXPECT_EQ(fires(1, 1e-11), "GRAD_VANISH 2");
  EXPECT_EQ(fires(9e-9, 1), "GRAD_VANISH 1");
  EXPECT_EQ(fires(1, 2e-8), "");
  EXPECT_EQ(fires(1, 0), "");         // DEAD_LAYER's
  EXPECT_EQ(fires(1e-9, 1e-11), "");  // of the whole model, which is one alert
  EXPECT_EQ(fires(5e-8, 9e-9), "");   // small as all the others are
}

// --- STALE_UPDATE ---

TEST(StaleUpdates, CountsWhatWasMeantToMove) {
  StaleUpdates stale;
  const auto sample = [&](DType dtype, int64_t frozen, int64_t moved) {
    Alerts out;
    stale.Sample(0, {1, "w", dtype, frozen, moved}, out);
    return !out.empty();
  };
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(sample(DType::kFloat32, 100, 0));  // in FP32 it is the gradient that is small
    EXPECT_FALSE(sample(DType::kBFloat16, 0, 0));   // nothing was meant to move
    EXPECT_FALSE(sample(DType::kBFloat16, 50, 50));
  }
  EXPECT_FALSE(sample(DType::kBFloat16, 51, 49));
  EXPECT_FALSE(sample(DType::kBFloat16, 51, 49));
  EXPECT_TRUE(sample(DType::kBFloat16, 51, 49));
  EXPECT_FALSE(sample(DType::kBFloat16, 1, 99));
  EXPECT_FALSE(sample(DType::kBFloat16, 99, 1));
}

// --- ABSORPTION ---

TEST(ResidualCondition, LeavesOutWhatAddsNothingAndWhatIsTooLargeToVanish) {
  const auto fires = [](double unchanged, double zeros, double rms) {
    Alerts out;
    Residual residual;
    residual.unchanged = unchanged;
    residual.addend_zeros = zeros;
    residual.input_rms = 1;
    residual.addend_rms = rms;
    ResidualCondition(0, residual, out);
    return Types(out) == "ABSORPTION";
  };
  EXPECT_TRUE(fires(0.11, 0, 0.01));
  EXPECT_FALSE(fires(0.09, 0, 0.01));
  EXPECT_FALSE(fires(0.50, 0.49, 0.01));  // dropout
  EXPECT_TRUE(fires(0.60, 0.49, 0.01));
  EXPECT_FALSE(fires(0.50, 0, 0.5));  // half of the input is handed on as it is
  EXPECT_FALSE(fires(1, 1, 0));       // a branch that starts at zero
}

// --- hysteresis ---

TEST(AlertBook, AConditionThatGoesOnIsOneRow) {
  AlertBook book(50);
  const auto raise = [&](int64_t step, int64_t layer) {
    AlertRow alert = MakeAlert(AlertType::kDeadLayer, step, Phase::kBackward, "");
    alert.layer = layer;
    const AlertBook::Outcome outcome = book.Raise(alert);
    return std::pair(outcome, alert.repeats);
  };
  using enum AlertBook::Outcome;
  EXPECT_EQ(raise(0, 1), std::pair(kNew, int64_t{1}));
  EXPECT_EQ(raise(50, 1), std::pair(kContinues, int64_t{2}));
  EXPECT_EQ(raise(101, 1), std::pair(kNew, int64_t{1}));
  for (int64_t layer = 2; layer <= AlertBook::kOpenRows; ++layer)
    EXPECT_EQ(raise(101, layer).first, kNew);
  EXPECT_EQ(raise(101, 99).first, kLeftOut);
  EXPECT_EQ(raise(110, 1).first, kContinues);
  EXPECT_EQ(raise(200, 99).first, kNew);  // the others are over
}

}  // namespace
}  // namespace mpnanny
