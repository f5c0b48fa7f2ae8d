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
      {"scale: falling", "declining"},
      {"log: ***", "needs words"},
      {"stat: activation.absmax > 1", "unknown kind"},
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

TEST(FitsLogLine, ASettingHasItsOwnValue) {
  const Signal signal = Parse("log: reset_optimizer*True");
  EXPECT_TRUE(FitsLogLine(signal, "reset_optimizer=True"));
  EXPECT_TRUE(FitsLogLine(signal, "{'reset_optimizer': True, 'x': 1}"));
  EXPECT_FALSE(FitsLogLine(signal, "{'reset_optimizer': False, 'reset_meters': True}"));
  EXPECT_TRUE(FitsLogLine(signal, "reset_optimizer=False then reset_optimizer=True"));
}

TEST(FitsLogLine, WordsInOrder) {
  const Signal signal = Parse("log: overflow * loss scale");
  EXPECT_TRUE(FitsLogLine(signal, "[rank 0] OVERFLOW! Attempted Loss Scale: 65536"));
  EXPECT_FALSE(FitsLogLine(signal, "loss scale after overflow"));
  EXPECT_FALSE(FitsLogLine(signal, ""));
}

}  // namespace
}  // namespace mpnanny::cases
