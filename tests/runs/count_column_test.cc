// The number that counts the records of a log where no name says so
// (engines/runs/import/count_column.h).
#include <gtest/gtest.h>

#include "tests/runs/import_files.h"

namespace mpnanny::test {
namespace {

ReadLog Read(const std::string& text) {
  TempFolder folder;
  folder.Write("train.log", text);
  return ReadAsRun(folder, "train.log");
}

bool IsNumbered(const ReadLog& log) {
  return log.notes.find("No step number was read") == std::string::npos;
}

std::string Loss(int at) { return std::to_string(4 - 0.05 * at); }

TEST(CountColumnTest, AFractionOfAnEpochCounts) {
  std::string text;
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (int batch = 0; batch < 400; batch += 100) {
      text += "[" + std::to_string(batch) + "/400]  loss: " + Loss(epoch * 4 + batch / 100) + "\n";
    }
  }
  const ReadLog log = Read(text);
  ASSERT_TRUE(IsNumbered(log)) << log.notes;
  ASSERT_EQ(log.steps.size(), 12u) << log.notes;
  EXPECT_EQ(log.steps[1].step, 100);
  EXPECT_EQ(log.steps[11].step, 1100);
}

TEST(CountColumnTest, ABareNumberAtTheBeginningCounts) {
  std::string text;
  for (int at = 0; at < 10; ++at) text += std::to_string(250 * at) + " : loss " + Loss(at) + "\n";
  const ReadLog log = Read(text);
  ASSERT_TRUE(IsNumbered(log)) << log.notes;
  EXPECT_EQ(log.steps.back().step, 2250);
}

TEST(CountColumnTest, ALossThatIsNanIsOfTheSameShape) {
  std::string text;
  for (int at = 0; at < 10; ++at) {
    text += std::to_string(5 * at) + " : loss " + (at == 7 ? "nan" : Loss(at)) + "\n";
  }
  const ReadLog log = Read(text);
  ASSERT_EQ(log.steps.size(), 10u) << log.notes;
  EXPECT_EQ(log.steps[7].step, 35);
  EXPECT_TRUE(log.steps[7].flags & runs::kLossNan);
}

TEST(CountColumnTest, AColumnThatFillsUp) {
  std::string text;
  for (int at = 1; at <= 120; ++at) {
    const std::string count = std::to_string(at);
    text += "E" + std::string(3 - count.size(), ' ') + count + "/500 | Loss:" + Loss(at % 20) +
            " | ETA:" + std::to_string(300 - at) + ".5min\n";
  }
  const ReadLog log = Read(text);
  ASSERT_EQ(log.steps.size(), 120u) << log.notes;
  EXPECT_EQ(log.steps.front().step, 1);
  EXPECT_EQ(log.steps.back().step, 120);
}

TEST(CountColumnTest, AFewRecordsAreNoColumn) {
  const auto read = [](int records) {
    std::string text;
    for (int at = 0; at < records; ++at) {
      text += std::to_string(10 * at) + " : loss " + Loss(at) + "\n";
    }
    return Read(text);
  };
  EXPECT_FALSE(IsNumbered(read(4)));
  EXPECT_TRUE(IsNumbered(read(5)));
}

TEST(CountColumnTest, SignsAreOfTheirNumbers) {
  std::string text;
  for (int at = 0; at < 20; ++at) {
    const std::string sign = at % 2 == 0 ? "-" : "+";
    text += "[" + std::to_string(at) + "/20] loss " + Loss(at) + " logit " + sign + "5\n";
  }
  EXPECT_TRUE(IsNumbered(Read(text)));
}

// Where every third record has another form, none of them is the log's.
TEST(CountColumnTest, RecordsOfSeveralFormsAreLeftAsTheyAre) {
  std::string text;
  for (int at = 0; at < 30; ++at) {
    text += "[" + std::to_string(at) + "/30] loss " + Loss(at) + (at % 3 == 0 ? " *\n" : "\n");
  }
  const ReadLog log = Read(text);
  EXPECT_FALSE(IsNumbered(log)) << log.notes;
  EXPECT_EQ(log.steps.size(), 30u);
}

// Where no loss is printed at all the records are those of the scores.
TEST(CountColumnTest, ALogOfScoresAloneIsRead) {
  TempFolder folder;
  std::string rises = "True\nFalse\n", stays = rises;
  for (int at = 1; at <= 30; ++at) {
    const std::string line = "Train epoch " + std::to_string(at) + ", total time 18.9, accuracy:";
    rises += line + std::to_string(11 + 2 * at) + "\n";
    stays += line + "0.0\n";
  }
  folder.Write("rises.log", rises);
  folder.Write("stays.log", stays);
  const auto verdict = [&](const char* run) {
    auto output = Call("diagnose_run", {{"run", run}}, folder.path());
    EXPECT_TRUE(output) << (output ? "" : output.error().Text());
    return output ? output->structured["verdict"] : Json();
  };
  EXPECT_EQ(verdict("rises.log"), "healthy");
  EXPECT_NE(verdict("stays.log"), "healthy");
  EXPECT_EQ(ReadAsRun(folder, "rises.log").steps.size(), 30u);
}

// Tables and lines of JSON as well.
TEST(CountColumnTest, TablesOfScoresAloneAreRead) {
  TempFolder folder;
  std::string table = "episode,reward\n", lines;
  for (int at = 1; at <= 30; ++at) {
    table += std::to_string(at) + "," + std::to_string(5 * at) + "\n";
    lines +=
        "{\"episode\": " + std::to_string(at) + ", \"reward\": " + std::to_string(5 * at) + "}\n";
  }
  folder.Write("rewards.csv", table);
  folder.Write("rewards.jsonl", lines);
  for (const char* run : {"rewards.csv", "rewards.jsonl"}) {
    auto output = Call("diagnose_run", {{"run", run}}, folder.path());
    ASSERT_TRUE(output) << run << output.error().Text();
    EXPECT_EQ(output->structured["verdict"], "healthy") << output->text;
  }
}

// A number whose name says nothing of a training is no record of one.
TEST(CountColumnTest, NumbersOfNoTrainingAreNotRead) {
  std::string text;
  for (int at = 1; at <= 30; ++at) text += "copied file " + std::to_string(at) + ", bytes: 12\n";
  TempFolder folder;
  folder.Write("copy.log", text);
  EXPECT_NE(ReadAsRun(folder, "copy.log").error, "");
}

// None of these counts records: a time, a date, seconds that passed, a share, what has a unit or a
// name, a number that stands still.
TEST(CountColumnTest, WhatDoesNotCountIsNoStep) {
  const auto of = [](const auto& line) {
    std::string text;
    for (int at = 0; at < 12; ++at) text += line(at) + " loss " + Loss(at) + "\n";
    return Read(text);
  };
  const auto number = [](int at) { return std::to_string(at); };
  EXPECT_FALSE(IsNumbered(of([&](int at) { return "12:" + number(10 + at) + ":00"; })));
  EXPECT_FALSE(IsNumbered(of([&](int at) { return "[" + number(10 + at) + ":30]"; })));
  EXPECT_FALSE(IsNumbered(of([&](int at) { return "2026-11-" + number(10 + at); })));
  EXPECT_FALSE(IsNumbered(of([&](int at) { return number(10 + at) + "-11-2026:"; })));
  EXPECT_FALSE(IsNumbered(of([&](int at) { return "took " + number(at * at + at % 3); })));
  EXPECT_FALSE(IsNumbered(of([&](int at) { return number(5 * at) + "%"; })));
  EXPECT_FALSE(IsNumbered(of([&](int at) { return number(5 * at) + "MB"; })));
  EXPECT_FALSE(IsNumbered(of([&](int at) { return number(5 * at) + " images,"; })));
  EXPECT_FALSE(IsNumbered(of([&](int at) { return "seen: " + number(5 * at) + ","; })));
  EXPECT_FALSE(IsNumbered(of([](int) { return std::string("16 workers,"); })));
}

}  // namespace
}  // namespace mpnanny::test
