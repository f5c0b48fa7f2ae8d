// Relations between the numbers that a log prints: said with their arithmetic where they hold, and
// silent beside them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "engines/diagnosis/facts/logged.h"
#include "engines/runs/printed.h"
#include "tests/runs/recording.h"

namespace mpnanny::test {
namespace {

using diagnosis::LoggedRelations;
using diagnosis::RelateLogged;
using runs::FigureSeries;
using runs::NamedSeries;

// A scatter without a pattern that a format has.
double Noise(int64_t i) { return std::sin(static_cast<double>(i * i) * 0.7311 + 0.37); }

template <typename F>
NamedSeries Series(const std::string& name, int64_t count, const F& value) {
  NamedSeries series{name, {}};
  for (int64_t i = 0; i < count; ++i) series.values.emplace_back(i, value(i));
  return series;
}

double Rounded(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return std::stod(text);
}

double ToBf16(double value) {
  const double one = std::ldexp(1.0, std::ilogb(value) - 7);
  return std::round(value / one) * one;
}
double ToFp16(double value) {
  const double one = std::ldexp(1.0, std::ilogb(value) - 10);
  return std::round(value / one) * one;
}

double Falling(int64_t i) {
  return 2 + 3 * std::exp(-0.05 * static_cast<double>(i)) + 0.05 * Noise(i);
}

// --- to how many digits --------------------------------------------------------------------------

TEST(PrintedTest, TheDigitsOfAPrint) {
  EXPECT_EQ(runs::DigitsOf(2.3101).significant, 5);
  EXPECT_EQ(runs::DigitsOf(2.3101).behind_point, 4);
  EXPECT_EQ(runs::DigitsOf(1e-05).behind_point, 5);
  EXPECT_EQ(runs::DigitsOf(-1200).behind_point, 0);
  const auto words = [](const auto& value) {
    return runs::Printed(Series("x", 50, value).values).Words();
  };
  EXPECT_EQ(words([](int64_t i) { return Rounded(Falling(i), 4); }), "4 decimals");
  EXPECT_EQ(words([](int64_t i) { return Rounded(100 * Noise(i), 2); }), "2 decimals");
  EXPECT_EQ(words([](int64_t i) { return Falling(i); }), "full precision");
  EXPECT_EQ(words([](int64_t i) {
              char text[40];  // "%.4e" over many decades
              std::snprintf(text, sizeof text, "%.3e", Falling(i) * std::pow(10.0, i % 7));
              return std::stod(text);
            }),
            "4 digits");
}

TEST(PrintedTest, EqualIsWhatTheCoarserPrintCannotTellApart) {
  const auto coarse = Series("x", 50, [](int64_t i) { return Rounded(Falling(i), 2); });
  const auto fine = Series("x", 50, [](int64_t i) { return Rounded(Falling(i), 5); });
  const runs::Printed a(coarse.values), b(fine.values);
  for (size_t i = 0; i < 50; ++i) {
    EXPECT_TRUE(runs::EqualAsPrinted(coarse.values[i].second, a, fine.values[i].second, b));
  }
  EXPECT_FALSE(runs::EqualAsPrinted(2.31, a, 2.32, a));
  EXPECT_FALSE(runs::EqualAsPrinted(2.31001, b, 2.31002, b));
  EXPECT_TRUE(runs::EqualAsPrinted(kNan, a, kNan, b));
  EXPECT_FALSE(runs::EqualAsPrinted(kNan, a, 2.31, b));
}

// --- perplexity ----------------------------------------------------------------------------------

TEST(LoggedNumbersTest, APerplexityThatIsNotTheExponentialOfItsLoss) {
  const auto loss = Series("train/loss", 20, [](int64_t i) { return Rounded(Falling(i), 4); });
  const auto of = [&](const std::string& name, const auto& value) {
    return RelateLogged({loss, Series(name, 20, value)}).perplexities;
  };
  const auto apart = of("train/ppl", [](int64_t i) { return std::exp(Falling(i) + 0.25); });
  ASSERT_EQ(apart.size(), 1u);
  EXPECT_NEAR(apart[0].apart, 0.25, 1e-3);
  EXPECT_EQ(apart[0].loss, "train/loss");
  // In nats, in bits (fairseq), a mean over a few batches, another split, too few steps.
  EXPECT_TRUE(of("train/ppl", [](int64_t i) { return Rounded(std::exp(Falling(i)), 2); }).empty());
  EXPECT_TRUE(of("train/ppl", [](int64_t i) { return std::exp2(Falling(i)); }).empty());
  EXPECT_TRUE(of("train/ppl", [](int64_t i) { return std::exp(Falling(i) + 0.01); }).empty());
  EXPECT_TRUE(of("val/ppl", [](int64_t i) { return std::exp(Falling(i) + 0.25); }).empty());
  EXPECT_TRUE(of("train/steppl", [](int64_t i) { return std::exp(Falling(i) + 0.25); }).empty());
  const auto nll = Series("train/nll_loss", 20, [](int64_t i) { return Falling(i) - 0.5; });
  EXPECT_TRUE(
      RelateLogged({loss, nll,
                    Series("train/ppl", 20, [](int64_t i) { return std::exp(Falling(i) - 0.5); })})
          .perplexities.empty())
      << "it belongs to another loss of the log";
}

// --- guessing ------------------------------------------------------------------------------------

TEST(LoggedNumbersTest, ALossThatRestsAtTheLogarithmOfTheClasses) {
  const auto rests = [](double classes, int64_t count = 200) {
    return Series("loss", count, [=](int64_t i) {
      return Rounded(std::log(classes) * (1 + 0.002 * Noise(i)), 4);
    });
  };
  EXPECT_EQ(RelateLogged({rests(10)}).guess.value_or(diagnosis::RestsAtGuess()).classes, 10);
  EXPECT_FALSE(RelateLogged({rests(11.3)}).guess);
  EXPECT_FALSE(RelateLogged({rests(10, 12)}).guess) << "too few to rest";
  const auto vocabulary = Series("vocab_size", 1, [](int64_t) { return 5021.0; });
  const auto named = RelateLogged({rests(5021), vocabulary}).guess;
  ASSERT_TRUE(named);
  EXPECT_EQ(named->classes, 5021);
  EXPECT_EQ(named->named_by, "vocab_size");
  EXPECT_FALSE(RelateLogged({rests(5021)}).guess) << "no number of classes that is known";
  // Converged to it from far above, was below it, still moves through it.
  EXPECT_FALSE(RelateLogged({Series("loss", 200, [](int64_t i) {
                 return std::log(10) + 8 * std::exp(-0.2 * static_cast<double>(i));
               })}).guess);
  EXPECT_FALSE(RelateLogged({Series("loss", 200, [](int64_t i) {
                 return i == 20 ? 1.0 : std::log(10);
               })}).guess);
  EXPECT_FALSE(RelateLogged({Series("loss", 200, [](int64_t i) {
                 return std::log(10) * (1.02 - 0.0002 * static_cast<double>(i));
               })}).guess);
}

// --- grids ---------------------------------------------------------------------------------------

TEST(LoggedNumbersTest, PrintedValuesOnA16BitGrid) {
  const auto of = [](const auto& value, int64_t count = 100, const char* name = "loss") {
    return RelateLogged({Series(name, count, value)}).grids;
  };
  const auto bf16 = of([](int64_t i) { return Rounded(ToBf16(Falling(i)), 4); });
  ASSERT_EQ(bf16.size(), 1u);
  EXPECT_TRUE(bf16[0].bf16);
  EXPECT_LT(bf16[0].log10_chance, -6);
  const auto fp16 = of([](int64_t i) { return Rounded(ToFp16(Falling(i)), 4); });
  ASSERT_EQ(fp16.size(), 1u);
  EXPECT_FALSE(fp16[0].bf16);
  EXPECT_EQ(of([](int64_t i) { return ToBf16(Falling(i)); }, 100, "grad_norm").size(), 1u);
  // FP32, a print too coarse to tell, too few values, one that is off it, round numbers, another
  // figure.
  EXPECT_TRUE(of([](int64_t i) { return Rounded(Falling(i), 4); }).empty());
  EXPECT_TRUE(
      of([](int64_t i) { return static_cast<double>(static_cast<float>(Falling(i))); }).empty());
  EXPECT_TRUE(of([](int64_t i) { return Rounded(ToBf16(Falling(i)), 1); }).empty());
  EXPECT_TRUE(of([](int64_t i) { return ToBf16(Falling(i)); }, 5).empty());
  EXPECT_TRUE(
      of([](int64_t i) { return i == 50 ? 2.30057 : Rounded(ToBf16(Falling(i)), 4); }).empty());
  EXPECT_TRUE(of([](int64_t i) { return 0.5 * static_cast<double>(i % 20); }).empty());
  EXPECT_TRUE(of([](int64_t i) { return ToBf16(Falling(i)); }, 100, "reward").empty());
}

// --- in an answer --------------------------------------------------------------------------------

std::string Lines(int64_t count, const auto& loss) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) {
    char line[200];
    std::snprintf(line, sizeof line, "step %d loss %.4f grad_norm %.3f lr 0.001\n",
                  static_cast<int>(i), loss(i), 1 + 0.2 * Noise(i + 7));
    text += line;
  }
  return text;
}

Json Diagnosed(const std::string& log, std::string* text = nullptr) {
  TempFolder folder;
  folder.Write("a.log", log);
  auto answer = Call("diagnose_run", {{"log_path", "a.log"}}, folder.path());
  EXPECT_TRUE(answer) << (answer ? "" : answer.error().Text());
  if (!answer) return {};
  if (text) *text = answer->text;
  return answer->structured;
}

TEST(LoggedNumbersTest, AnAnswerTellsThemAtHalfConfidenceAtMostAndMakesNoVerdict) {
  std::string text;
  const Json plain = Diagnosed(Lines(200, Falling));
  const Json grid = Diagnosed(Lines(200, [](int64_t i) { return ToBf16(Falling(i)); }), &text);
  EXPECT_EQ(grid["verdict"], plain["verdict"]) << text;
  EXPECT_NE(text.find("are BF16 numbers"), std::string::npos) << text;
  for (const Json& cause : grid["hypotheses"]) EXPECT_LE(cause["confidence"].get<double>(), 0.5);
}

TEST(LoggedNumbersTest, NoRunIsHealthyThatNeverLeavesTheGuess) {
  std::string text;
  const Json answer =
      Diagnosed("config: num_classes: 7\n" +
                    Lines(300, [](int64_t i) { return std::log(7.0) * (1 + 0.004 * Noise(i)); }),
                &text);
  EXPECT_NE(answer["verdict"], "healthy") << text;
  EXPECT_NE(text.find("ln(7) = 1.9459"), std::string::npos) << text;
  EXPECT_NE(text.find("num_classes"), std::string::npos) << text;
}

}  // namespace
}  // namespace mpnanny::test
