#include "engines/cases/signal.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mpnanny::cases {
namespace {

Signal Parse(std::string_view text) {
  auto signal = ParseSignal(text, 1);
  EXPECT_TRUE(signal) << text << ": " << (signal ? "" : signal.error().Text());
  return signal ? *signal : Signal{};
}

TEST(ParseSignal, Alert) {
  const Signal signal = Parse("alert:INF@forward *.wo|*mlp*");
  EXPECT_EQ(signal.kind, Signal::Kind::kAlert);
  EXPECT_EQ(signal.name, "INF");
  EXPECT_EQ(signal.phase, "forward");
  EXPECT_EQ(signal.layer_glob, "*.wo|*mlp*");
  EXPECT_EQ(Parse("alert:LOSS_SCALE_COLLAPSE").phase, "");
}

TEST(ParseSignal, StatOfALayerOfAStepAndAShare) {
  const Signal layer = Parse("stat: activation.absmax > 6e4 *.wo");
  EXPECT_EQ(layer.of, "activation");
  EXPECT_EQ(layer.name, "absmax");
  EXPECT_EQ(layer.op, ">");
  EXPECT_EQ(layer.value, 60000);
  EXPECT_FALSE(layer.share);
  EXPECT_EQ(layer.layer_glob, "*.wo");

  EXPECT_EQ(Parse("stat: step.loss_scale < 1").of, "step");
  const Signal share = Parse("stat: gradient.zeros >= 50%");
  EXPECT_TRUE(share.share);
  EXPECT_EQ(share.value, 0.5);
}

TEST(ParseSignal, RuleScaleAndLog) {
  EXPECT_EQ(Parse("rule:clip-before-unscale").name, "clip-before-unscale");
  EXPECT_EQ(Parse("scale: stuck").name, "stuck");
  EXPECT_EQ(Parse("log:  Attempting   to unscale").name, "Attempting to unscale");
}

TEST(ParseSignal, RefusesEverythingElseAndSaysWhatIsAllowed) {
  const struct {
    const char* text;
    const char* says;
  } wrong[] = {
      {"", "unknown kind"},
      {"alert", "alert:TYPE"},
      {"alert:INFF", "'INF'"},
      {"alert:INF@forwards", "'forward'"},
      {"alert:INF *.wo *.wi", "alert:TYPE"},
      {"rule:Not_Kebab", "kebab"},
      {"rule:a b", "kebab"},
      {"stat: absmax > 1", "unknown subject"},
      {"stat: activation.abs_max > 1", "'absmax'"},
      {"stat: step.absmax > 1", "loss_scale"},
      {"stat: activation.absmax >> 1", "operator"},
      {"stat: activation.absmax>1", "stat: of.column"},
      {"stat: activation.absmax > big", "finite number"},
      {"stat: activation.absmax > nan", "finite number"},
      {"stat: activation.absmax > 1e999", "finite number"},
      {"stat: activation.absmax > 50%", "percentage"},
      {"stat: step.loss > 1 *.wo", "no layer"},
      {"scale: falling", "declining"},
      {"log: ***", "needs words"},
      {"symptom: x", "unknown kind"},
  };
  for (const auto& one : wrong) {
    const auto signal = ParseSignal(one.text, 1);
    ASSERT_FALSE(signal) << one.text;
    EXPECT_NE(signal.error().Text().find(one.says), std::string::npos) << signal.error().Text();
  }
  for (const double weight : {0.0, -1.0, 11.0, std::nan("")}) {
    EXPECT_FALSE(ParseSignal("scale: stuck", weight)) << weight;
  }
}

TEST(FitsLayer, AlternativesWithoutCaseAndOnlyWholeNames) {
  const Signal signal = Parse("alert:INF *.wo|*attn*");
  EXPECT_TRUE(FitsLayer(signal, "blocks.3.ffn.wo"));
  EXPECT_TRUE(FitsLayer(signal, "encoder.SelfAttn.q"));
  EXPECT_FALSE(FitsLayer(signal, "blocks.3.ffn.wo.weight"));
  EXPECT_FALSE(FitsLayer(signal, ""));
  EXPECT_TRUE(FitsLayer(Parse("alert:INF"), ""));
}

TEST(FitsValue, EveryOperatorAndNoNaN) {
  const double limit = 2;
  for (const double value : {1.0, 2.0, 3.0}) {
    EXPECT_EQ(FitsValue(Parse("stat: weight.max < 2"), value), value < limit);
    EXPECT_EQ(FitsValue(Parse("stat: weight.max <= 2"), value), value <= limit);
    EXPECT_EQ(FitsValue(Parse("stat: weight.max > 2"), value), value > limit);
    EXPECT_EQ(FitsValue(Parse("stat: weight.max >= 2"), value), value >= limit);
    EXPECT_EQ(FitsValue(Parse("stat: weight.max == 2"), value), value == limit);
    EXPECT_EQ(FitsValue(Parse("stat: weight.max != 2"), value), value != limit);
  }
  EXPECT_FALSE(FitsValue(Parse("stat: weight.max != 2"), std::nan("")));
}

TEST(FitsLogLine, WordsInOrder) {
  const Signal signal = Parse("log: overflow * loss scale");
  EXPECT_TRUE(FitsLogLine(signal, "[rank 0] OVERFLOW! Attempted Loss Scale: 65536"));
  EXPECT_FALSE(FitsLogLine(signal, "loss scale after overflow"));
  EXPECT_FALSE(FitsLogLine(signal, ""));
}

}  // namespace
}  // namespace mpnanny::cases
