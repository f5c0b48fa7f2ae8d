// compare_runs on logs: what two columns of figures show, and what a person would conclude from
// them.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/runs/recording.h"

namespace mpnanny::test {
namespace {

struct Line {
  double loss = 0, norm = 0;
  std::string more = "";
};

// HF's console output of `steps` steps.
template <typename F>
std::string Log(int64_t steps, const F& line) {
  std::string text;
  for (int64_t step = 0; step < steps; ++step) {
    const Line one = line(step);
    text += "{'loss': " + std::to_string(one.loss) + ", 'grad_norm': " + std::to_string(one.norm) +
            ", 'learning_rate': 0.0002, 'step': " + std::to_string(step) + one.more + "}\n";
  }
  return text;
}

double Loss(int64_t step) {
  return 1.75 + std::exp(-0.05 * static_cast<double>(step)) +
         0.01 * static_cast<double>((step * 7) % 5);
}
double Norm(int64_t step) { return 0.36 + 0.03 * static_cast<double>((step * 3) % 4); }

struct Compared {
  Json json;
  std::string text;
};

Compared Compare(const std::string& a, const std::string& b) {
  TempFolder folder;
  folder.Write("a.log", a);
  folder.Write("b.log", b);
  auto output = Call("compare_runs", {{"a", "a.log"}, {"b", "b.log"}}, folder.path());
  EXPECT_TRUE(output) << (output ? "" : output.error().Text());
  return output ? Compared{output->structured, output->text} : Compared{};
}

bool Holds(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

std::string Sound(int64_t steps, double norms = 1) {
  return Log(steps, [=](int64_t step) { return Line{Loss(step), norms * Norm(step)}; });
}

TEST(CompareLogsTest, EqualLossesWithNormsApartAreTheGradientPath) {
  for (const int64_t steps : {4, 40}) {
    const Compared c = Compare(Sound(steps), Sound(steps, 0.37));
    EXPECT_EQ(c.json["verdict"], "not_acceptable") << steps << c.text;
    EXPECT_TRUE(Holds(c.text, "Verdict on b, with a as the reference: not acceptable")) << c.text;
    EXPECT_TRUE(Holds(c.text, "the gradient path differs, and not the forward pass; no rounding"))
        << c.text;
    EXPECT_TRUE(Holds(c.text, "a 0.36, b 0.1332")) << "that step's own figures: " << c.text;
  }
  // Another card: the last digits.
  const Compared sound =
      Compare(Sound(40),
              Log(40, [](int64_t step) { return Line{Loss(step) * 1.0003, Norm(step) * 1.002}; }));
  EXPECT_EQ(sound.json["verdict"], "acceptable") << sound.text;
  EXPECT_TRUE(sound.json["first_difference"].is_null()) << sound.text;
}

TEST(CompareLogsTest, ANormThatIsPrintedScaledIsSaidToBe) {
  const auto scaled = [](double scale, double norms) {
    return Log(40, [=](int64_t step) {
      return Line{Loss(step), norms * Norm(step), ", 'loss_scale': " + std::to_string(scale)};
    });
  };
  const Compared c = Compare(scaled(1, 1), scaled(1024, 1024));
  EXPECT_EQ(c.json["verdict"], "undecided") << c.text;
  EXPECT_TRUE(Holds(c.text, "the factor between their loss scales")) << c.text;
}

TEST(CompareLogsTest, ASingleSpikeIsADifference) {
  const Compared c = Compare(Sound(200), Log(200, [](int64_t step) {
                               const bool up = step >= 16 && step < 19;
                               return Line{Loss(step) * (up ? 1.7 : 1), Norm(step) * (up ? 23 : 1)};
                             }));
  EXPECT_TRUE(Holds(c.text, "b's gradient norm has a spike that a's has not")) << c.text;
  ASSERT_TRUE(c.json["first_difference"].is_object()) << c.text;
  EXPECT_EQ(c.json["first_difference"]["spike"], true) << c.text;
  EXPECT_FALSE(Holds(c.text, "No difference beyond noise")) << c.text;
  EXPECT_EQ(c.json["verdict"], "acceptable") << "it passed: " << c.text;
}

TEST(CompareLogsTest, WorseAtTheEndIsNotCalledNoDifference) {
  // b turns at the very end, in a window that no second one confirms.
  const Compared c = Compare(Sound(100), Log(100, [](int64_t step) {
                               return Line{Loss(step) * (step >= 95 ? 1.3 : 1), Norm(step)};
                             }));
  EXPECT_EQ(c.json["verdict"], "not_acceptable") << c.text;
  EXPECT_FALSE(Holds(c.text, "No difference beyond noise was found")) << c.text;
}

TEST(CompareLogsTest, BsDiagnosisIsHeld) {
  const std::string zeros =
      Log(40, [](int64_t step) { return Line{Loss(step), step >= 20 ? NAN : Norm(step)}; });
  const Compared broken = Compare(Sound(40), zeros);
  EXPECT_EQ(broken.json["verdict"], "not_acceptable") << broken.text;
  EXPECT_TRUE(Holds(broken.text, "diagnose_run calls b broken")) << broken.text;
  const Compared evaluated =
      Compare(Sound(40), Sound(40) + "{'eval_loss': nan, 'eval_runtime': 3.0}\n");
  EXPECT_EQ(evaluated.json["verdict"], "not_acceptable") << evaluated.text;
  EXPECT_TRUE(Holds(evaluated.text, "b's evaluation loss (eval_loss) is not finite in 1 of 1"))
      << evaluated.text;
}

// Another program's print: what parts first, to the digits that are shown.
TEST(CompareLogsTest, WhichPrintedNumberPartsFirst) {
  const auto from = [](int64_t loss_at, int64_t norm_at) {
    return Log(60, [=](int64_t step) {
      return Line{Loss(step) + (step >= loss_at ? 0.001 : 0),
                  Norm(step) * (step >= norm_at ? 1.01 : 1),
                  ", 'reward': " + std::to_string(Loss(step + 5)) +
                      ", 'step_time': " + std::to_string(Norm(step * loss_at))};
    });
  };
  const std::string sound = from(60, 60);
  const Compared same = Compare(sound, sound);
  EXPECT_TRUE(Holds(same.text, "figures that both logs print are equal at every common step (60"))
      << same.text;

  const Compared norm = Compare(sound, from(60, 10));
  EXPECT_TRUE(Holds(norm.text,
                    "losses are equal at all 60 common steps (6 decimals); gradient norms are "
                    "equal up to step 9 (the digits shown) and part at step 10"))
      << norm.text;
  EXPECT_TRUE(Holds(norm.text, "the gradient path (backward pass")) << norm.text;
  EXPECT_EQ(norm.json["printed"][0]["name"], "grad_norm");
  EXPECT_EQ(norm.json["printed"][0]["parts_at"], 10);
  EXPECT_EQ(norm.json["printed"][0]["equal_up_to"], 9);

  const Compared loss = Compare(sound, from(40, 60));
  EXPECT_TRUE(Holds(loss.text, "losses are equal up to step 39 (6 decimals) and part at step 40"))
      << loss.text;
  EXPECT_TRUE(Holds(loss.text, "the batch of step 40")) << loss.text;

  const Compared start = Compare(sound, from(0, 60));
  EXPECT_TRUE(Holds(start.text, "losses differ from the first common step on, 0")) << start.text;
  EXPECT_TRUE(Holds(start.text, "weights, data or the forward pass differ from the start"))
      << start.text;
  for (const Json& number : norm.json["printed"]) EXPECT_NE(number["name"], "step_time");
}

TEST(CompareLogsTest, AFactorBetweenNormsIsCalledByItsNumber) {
  for (const auto& [factor, words] :
       {std::pair(std::sqrt(2.0), "the square root of 2"), std::pair(65536.0, "2 to the 16"),
        std::pair(8.0, "a mean over 8 ranks or micro-batches"),
        std::pair(1 / 3.0, "a mean over 3 ranks or micro-batches")}) {
    const Compared c = Compare(Sound(40), Sound(40, factor));
    EXPECT_TRUE(Holds(c.text, words)) << factor << c.text;
    EXPECT_TRUE(Holds(c.text, "gradient norms differ from the first common step on, 0")) << c.text;
  }
  const Compared other = Compare(Sound(40), Sound(40, 2.9));
  EXPECT_TRUE(Holds(other.text, "by one factor, b : a = 2.9")) << other.text;
  EXPECT_FALSE(Holds(other.text, "2.9 (")) << other.text;
}

}  // namespace
}  // namespace mpnanny::test
