// A text about a log names the lines that its reader can look up (engines/runs/log_lines.h).
#include "engines/runs/log_lines.h"

#include <gtest/gtest.h>

#include "engines/runs/import/open.h"
#include "tests/runs/recording.h"

namespace mpnanny::test {
namespace {

// Of an epoch `at` batches that are counted in brackets, `bad` of which are NaN from there on.
std::string Epochs(int epochs, int bad_epoch) {
  std::string log = "seed 7\n";
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    log += "Epoch " + std::to_string(epoch) + "\n";
    for (int batch = 0; batch < 100; batch += 10) {
      const std::string loss = epoch >= bad_epoch ? "nan" : std::to_string(3.0 / (epoch + batch));
      log += "[" + std::to_string(batch) + "/100] loss: " + loss + "\n";
    }
  }
  return log;
}

ToolOutput AnswerAbout(const std::string& log) {
  TempFolder folder;
  folder.Write("train.log", log);
  auto output = Call("diagnose_run", {{"run", "train.log"}}, folder.path());
  EXPECT_TRUE(output) << (output ? "" : output.error().Text());
  return output ? *std::move(output) : ToolOutput{};
}

bool Has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

TEST(LogLinesTest, StepsThatTheLogDoesNotPrintAreLines) {
  // One line, then eleven an epoch: the first batch of the third is the 25th line.
  const ToolOutput output = AnswerAbout(Epochs(4, 3));
  EXPECT_TRUE(Has(output.text, "first bad line 25: the loss is NaN")) << output.text;
  EXPECT_TRUE(Has(output.text, "In the log:\n  line 25: \"[0/100] loss: nan\"")) << output.text;
  EXPECT_FALSE(Has(output.text, "step 2")) << output.text;
  EXPECT_EQ(output.structured["log_lines"],
            Json::parse(R"([{"line": 25, "text": "[0/100] loss: nan"}])"));
  EXPECT_TRUE(Has(output.structured["headline"], "line 25")) << output.structured["headline"];
}

TEST(LogLinesTest, StepsThatItPrintsStayAndHaveTheirLine) {
  std::string log = "seed 7\n";
  for (int step = 50; step <= 500; step += 50) {
    log += "step " + std::to_string(step) + " loss " + (step < 400 ? "1.5" : "nan") + "\n";
  }
  const ToolOutput output = AnswerAbout(log);
  EXPECT_TRUE(Has(output.text, "First bad: step 400 (line 9)")) << output.text;
  EXPECT_TRUE(Has(output.text, "In the log:\n  line 9: \"step 400 loss nan\"")) << output.text;
  EXPECT_EQ(output.structured["log_lines"][0]["line"], 9);
}

// Of lines that ranks print for one step the bad one is named.
TEST(LogLinesTest, TheLineIsThatOfTheLossThatCounts) {
  std::string log;
  for (int step = 0; step < 20; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      const bool bad = step == 12 && rank == 1;
      log += "rank " + std::to_string(rank) + " step " + std::to_string(step) + " loss " +
             (bad ? "nan" : "1.5") + "\n";
    }
  }
  EXPECT_EQ(AnswerAbout(log).structured["log_lines"][0]["line"], 26);
}

// The value of an evaluation stands in its own line, not in that of the loss before it.
TEST(LogLinesTest, AnEvaluationHasItsOwnLine) {
  std::string log;
  for (int epoch = 1; epoch <= 30; ++epoch) {
    for (int batch = 0; batch < 3; ++batch) {
      log += "loss: " + std::to_string(3 - 0.08 * epoch) + "\n";
    }
    log += "saved\nval_loss: " + std::to_string(epoch == 4 ? 1.0 : 1.0 + 0.1 * epoch) + "\n";
  }
  const ToolOutput output = AnswerAbout(log);
  EXPECT_TRUE(Has(output.text, "val_loss was 1 at line 20, ")) << output.text;
  EXPECT_TRUE(Has(output.text, "and is 4 at line 150")) << output.text;
  EXPECT_TRUE(Has(output.text, "line 20: \"val_loss: 1.000000\"")) << output.text;
}

TEST(LogLinesTest, ALineOfCodeIsNoneOfTheLog) {
  std::string log =
      Epochs(2, 9) + "Traceback (most recent call last):\n  File \"train.py\", line 5\n";
  log += "SyntaxError: bad input at File \"data.py\", line 3\n";
  const Json lines = AnswerAbout(log).structured["log_lines"];
  ASSERT_EQ(lines.size(), 2u) << lines;
  EXPECT_EQ(lines[0]["line"], 23) << lines;
  EXPECT_EQ(lines[1]["line"], 26) << lines;
}

TEST(LogLinesTest, ARowOfATableIsQuoted) {
  TempFolder folder;
  std::string table = "step,loss\n";
  for (int step = 1; step <= 20; ++step) {
    table += std::to_string(10 * step) + "," + (step < 15 ? "1.5" : "nan") + "\n";
  }
  folder.Write("metrics.csv", table);
  auto output = Call("diagnose_run", {{"run", "metrics.csv"}}, folder.path());
  ASSERT_TRUE(output) << output.error().Text();
  EXPECT_EQ(output->structured["log_lines"], Json::parse(R"([{"line": 16, "text": "150,nan"}])"));
}

TEST(LogLinesTest, APastedLogIsQuotedAsWell) {
  TempFolder folder;
  auto output = Call("diagnose_run", {{"log_text", Epochs(3, 2)}}, folder.path());
  ASSERT_TRUE(output) << output.error().Text();
  EXPECT_EQ(output->structured["log_lines"],
            Json::parse(R"([{"line": 14, "text": "[0/100] loss: nan"}])"));
}

TEST(LogLinesTest, AMonitoredRunHasNone) {
  const runs::LogLines none;
  EXPECT_EQ(none.Of(3), std::nullopt);
  EXPECT_EQ(none.Located("at step 3"), "at step 3");
}

class LocatedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = imports::OpenText("a\nloss 3\nloss 2.5\nloss 2\n", "log_text", CancelToken());
    ASSERT_TRUE(opened) << opened.error().Text();
    auto source = runs::SourceOfLog(*std::move(opened), std::nullopt);
    ASSERT_TRUE(source) << source.error().Text();
    lines_.emplace(*source);
    ASSERT_FALSE(lines_->say_their_steps());
  }
  std::optional<runs::LogLines> lines_;
};

TEST_F(LocatedTest, EnglishAndChinese) {
  EXPECT_EQ(lines_->Located("It rose at step 1, from step 0 on."),
            "It rose at line 3, from line 2 on.");
  EXPECT_EQ(lines_->Located("从第 2 步到结束"), "从第 4 行到结束");
}

TEST_F(LocatedTest, WhatIsNoStepStays) {
  for (const char* text : {"every step 1.5 s", "timestep 1", "step 7", "1 step", "step",
                           "The log says \"step 1\" there", "call `step 1`", "“step 1”"}) {
    EXPECT_EQ(lines_->Located(text), text);
  }
  EXPECT_EQ(lines_->Located("\"quoted\" at step 1"), "\"quoted\" at line 3");
  EXPECT_EQ(lines_->Located("a sign \"\nat step 1"), "a sign \"\nat line 3");
}

}  // namespace
}  // namespace mpnanny::test
