// What each layer makes of its values.
#include "engines/judgement/layer_profiles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/judgement/judged_step.h"

namespace mpnanny::judgement {
namespace {

using WantedFormats = std::vector<std::pair<int, int>>;

// The layers by name; a backward pass has a "'" behind it.
std::map<std::string, LayerProfile> LayersOf(const JudgedStep& step) {
  std::map<std::string, LayerProfile> layers;
  for (const LayerProfile& each : step.judge.profiles().Layers()) {
    layers[each.module + (each.backward ? "'" : "")] = each;
  }
  return layers;
}

// An operator of a layer makes memory; what is measured of what it takes.
WantedFormats Makes(JudgedStep& step, const std::optional<std::string>& module, int64_t memory,
                    const std::vector<Input>& inputs, const ReferenceError& found,
                    Phase phase = Phase::kForward, Element type = Element::kFloat16) {
  const int place = step.At("aten.mm.default", 10, phase, module);
  WantedFormats measured;
  step.MakesIn(type, step.Run(place, inputs, true, &measured), memory, found);
  return measured;
}

TEST(LayerProfiles, AValueLeavesALayerWhereAnotherOneTakesIt) {
  struct {
    const char* what;
    Phase from;
    std::optional<std::string> from_module;
    Phase to;
    std::optional<std::string> to_module;
    bool leaves;
  } const rows[] = {
      {"to the next layer", Phase::kForward, "a", Phase::kForward, "b", true},
      {"within it", Phase::kForward, "a", Phase::kForward, "a", false},
      {"out of modules", Phase::kForward, "a", Phase::kForward, {}, true},
      {"to the loss", Phase::kForward, "a", Phase::kLoss, {}, true},
      {"to the backward pass", Phase::kForward, "a", Phase::kBackward, "a", false},
      {"back to the layer before", Phase::kBackward, "b", Phase::kBackward, "a", true},
      {"within its backward pass", Phase::kBackward, "b", Phase::kBackward, "b", false},
      {"to the optimizer", Phase::kBackward, "b", Phase::kOptimizer, {}, false},
      {"of no layer", Phase::kForward, {}, Phase::kForward, "b", false},
      {"of the loss in a layer", Phase::kLoss, "a", Phase::kLoss, "b", false},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    JudgedStep step;
    Makes(step, row.from_module, 1, {}, Off(0.01), row.from);
    const WantedFormats measured =
        Makes(step, row.to_module, 2, {step.Of(50, Off(0)), step.Made(1)}, Off(0.01), row.to);
    EXPECT_EQ(measured, row.leaves ? (WantedFormats{{1, 0}}) : WantedFormats{});
    if (row.from_module && (row.from == Phase::kForward || row.from == Phase::kBackward)) {
      const auto layers = LayersOf(step);
      const auto& layer = layers.at(*row.from_module + (row.from == Phase::kBackward ? "'" : ""));
      EXPECT_EQ(layer.values, row.leaves ? 1 : 0);
    }
  }
}

TEST(LayerProfiles, WhereGradientsOfWeightsAreCollectedNothingGoesOn) {
  for (const int line : {0, 20}) {
    JudgedStep step;
    Makes(step, "b", 1, {}, Off(0.01), Phase::kBackward);
    step.Run(step.At("aten.add.Tensor", line, Phase::kBackward), {step.Made(1)});
    EXPECT_EQ(LayersOf(step).at("b'").values, line == 0 ? 0 : 1);
  }
}

TEST(LayerProfiles, WhatIsOnlyWrittenIsNotTaken) {
  JudgedStep step;
  Makes(step, "a", 1, {}, Off(0.01));
  Input written = step.Made(1);
  written.read = false;
  EXPECT_TRUE(Makes(step, "b", 2, {written}, Off(0)).empty());
  EXPECT_EQ(LayersOf(step).at("a").values, 0);
}

TEST(LayerProfiles, ErrorsAreOfWhatLeavesAndOfWhatCameIn) {
  JudgedStep step;
  Makes(step, "a", 1, {}, Off(0.001));
  Makes(step, "a", 2, {}, Off(0.01));
  Makes(step, "b", 3, {step.Made(1), step.Made(2), step.Made(1)}, Off(0.02));
  Makes(step, "b", 4, {step.Made(3)}, Off(0.03));
  Makes(step, "c", 5, {step.Made(4)}, Off(0), Phase::kForward, Element::kBFloat16);
  const auto layers = LayersOf(step);
  EXPECT_EQ(layers.at("a").error, 0.01);
  EXPECT_EQ(layers.at("a").error_in, 0);
  EXPECT_EQ(layers.at("a").values, 2) << "the same value once";
  EXPECT_EQ(layers.at("a").operators, 2);
  EXPECT_EQ(layers.at("a").Amplification(), std::nullopt);
  EXPECT_EQ(layers.at("b").error_in, 0.01);
  EXPECT_EQ(layers.at("b").error, 0.03);
  EXPECT_EQ(layers.at("b").values, 1);
  EXPECT_EQ(layers.at("b").type, Element::kFloat16);
  EXPECT_EQ(*layers.at("b").Amplification(), 3);
  EXPECT_EQ(layers.at("c").type, Element::kBFloat16);
}

TEST(LayerProfiles, PartsOfAValueAreValuesByThemselves) {
  JudgedStep step;
  Makes(step, "a", 1, {}, Off(0.01));
  Input part = step.Made(1);
  part.offset = 8;
  EXPECT_EQ(Makes(step, "b", 2, {step.Made(1), part, part}, Off(0)),
            (WantedFormats{{0, 0}, {1, 0}}));
}

TEST(LayerProfiles, UntilSomethingLeavesALayerItsNewestResultIsTold) {
  JudgedStep step;
  ReferenceError big = Off(0.01), small = Off(0.002);
  big.max_reference = 9;
  big.squared_reference = 900;
  big.squared_error = 0.09;
  Makes(step, "a", 1, {}, big);
  Makes(step, "a", 2, {}, small, Phase::kForward, Element::kBFloat16);
  auto layer = LayersOf(step).at("a");
  EXPECT_EQ(layer.error, 0.002);
  EXPECT_EQ(layer.rms, 0.1);
  EXPECT_EQ(layer.type, Element::kBFloat16);
  EXPECT_EQ(layer.absmax, 9) << "of all results";
  EXPECT_EQ(layer.operators, 2);
  // Then what left it is.
  Makes(step, "b", 3, {step.Made(1)}, Off(0));
  Makes(step, "a", 4, {}, small, Phase::kForward, Element::kBFloat16);
  layer = LayersOf(step).at("a");
  EXPECT_EQ(layer.error, 0.01);
  EXPECT_EQ(layer.type, Element::kFloat16);
  EXPECT_EQ(layer.rms, 0.1);
  EXPECT_EQ(layer.operators, 3);
}

TEST(LayerProfiles, NoiseHasNoErrorAndWhatIsNotFiniteComesInWithNone) {
  JudgedStep step;
  ReferenceError noise = Off(0);
  noise.squared_error = 0x1p80;
  Makes(step, "a", 1, {}, noise);
  Makes(step, "a", 2, {}, OutOfRange(1));
  ASSERT_TRUE(step.judge.MemoryOf(1).noise);
  Makes(step, "b", 3, {step.Made(1), step.Made(2)}, Off(0));
  EXPECT_EQ(LayersOf(step).at("b").error_in, 0);
  EXPECT_EQ(LayersOf(step).at("a").error, kForever);
  JudgedStep other;
  Makes(other, "a", 1, {}, noise);
  Makes(other, "b", 3, {other.Made(1)}, Off(0));
  EXPECT_EQ(LayersOf(other).at("a").error, 0);
}

TEST(LayerProfiles, FormatsOfEightValuesOfALayerAreMeasured) {
  JudgedStep step;
  size_t measured = 0;
  for (int64_t memory = 1; memory <= 10; ++memory) {
    Makes(step, "a", memory, {}, Off(0.01));
    measured += Makes(step, "b", 50 + memory, {step.Made(memory)}, Off(0)).size();
  }
  EXPECT_EQ(measured, 8u);
  EXPECT_EQ(LayersOf(step).at("a").values, 10);
}

TEST(LayerProfiles, AValueThatLeavesForWhatIsNotFollowedLeavesItsLayer) {
  JudgedStep step;
  Makes(step, "a", 1, {}, Off(0.01));
  Leaves row;
  row.memory = 1;
  row.place = step.At("aten.other.default", 77);
  row.type = Element::kBFloat16;
  EXPECT_EQ(step.judge.Take(row), 0);
  EXPECT_EQ(step.judge.Take(row), kNone) << "once";
  EXPECT_EQ(LayersOf(step).at("a").values, 1);
  EXPECT_EQ(LayersOf(step).at("a").type, Element::kBFloat16);
  row.memory = 99;
  EXPECT_EQ(step.judge.Take(row), kNone) << "nobody made it";
}

TEST(LayerProfiles, OfFormatsTheWorstIsKept) {
  JudgedStep step;
  Makes(step, "a", 1, {}, Off(0.01));
  Makes(step, "b", 2, {step.Made(1)}, Off(0.01));
  Formats row;
  row.layer = 0;
  row.found.numel = 200;
  row.found.finite = 0;
  row.found.rms = 100;
  row.found.fp16 = 100;
  step.judge.Take(row);
  EXPECT_EQ(LayersOf(step).at("a").measured, 0) << "nothing finite, nothing known";
  row.found.finite = 200;
  row.found.rms = 4;
  row.found.fp16 = 0.1;
  row.found.bf16 = 0.2;
  row.found.e4m3 = 0.3;
  row.found.e5m2 = NAN;
  row.found.fp16_overflow = 20;
  row.found.fp16_underflow = 2;
  step.judge.Take(row);
  LayerProfile layer = LayersOf(step).at("a");
  EXPECT_EQ(layer.rms, 4) << "in the place of what its newest result had";
  EXPECT_EQ(layer.measured, 1);
  EXPECT_EQ(layer.formats, (std::array<std::optional<double>, 6>{0.1, 0.2, 0.3, {}, 0.1, 0.01}));
  row.found.rms = 2;
  row.found.fp16 = 0.05;
  row.found.bf16 = 0.5;
  row.found.e5m2 = 0.6;
  row.found.fp16_overflow = 0;
  step.judge.Take(row);
  layer = LayersOf(step).at("a");
  EXPECT_EQ(layer.rms, 4);
  EXPECT_EQ(layer.measured, 2);
  EXPECT_EQ(layer.formats, (std::array<std::optional<double>, 6>{0.1, 0.5, 0.3, 0.6, 0.1, 0.01}));
  row.found.rms = 5;
  step.judge.Take(row);
  EXPECT_EQ(LayersOf(step).at("a").rms, 5);
  row.found.numel = 0;
  row.found.rms = 50;
  step.judge.Take(row);
  EXPECT_EQ(LayersOf(step).at("a").rms, 5);
}

TEST(LayerProfiles, ALayerWithoutResultsIsNotToldOf) {
  JudgedStep step;
  step.Run(step.At("aten.mm.default", 10, Phase::kForward, "a"), {});
  Makes(step, "b", 1, {}, Off(0));
  step.Run(step.At("aten.mm.default", 10, Phase::kOptimizer, "c"), {});
  const auto layers = LayersOf(step);
  EXPECT_EQ(layers.size(), 1u);
  EXPECT_TRUE(layers.contains("b"));
}

}  // namespace
}  // namespace mpnanny::judgement
