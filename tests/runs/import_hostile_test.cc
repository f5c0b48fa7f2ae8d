// Damaged and hostile logs: a clear error or a note, never a crash, never unbounded.
#include <gtest/gtest.h>

#include <random>

#include "tests/runs/import_files.h"

namespace mpnanny::test {
namespace {

std::string Events() {
  std::string bytes;
  for (int64_t step = 0; step < 40; ++step) bytes += Scalar("train/loss", step, 2.0F);
  return bytes;
}

std::string Wandb() {
  std::vector<std::string> records;
  for (int64_t step = 0; step < 40; ++step) records.push_back(History(step, {{"loss", "2"}}));
  return WandbFile(records);
}

constexpr char kState[] =
    "{\"log_history\": [{\"loss\": 2.5, \"step\": 1}, {\"loss\": NaN, \"step\": 2, \"x\": [1, "
    "{\"y\": \"z\\n\"}]}]}";

TEST(ImportHostileTest, CutAnywhereTheBeginningIsRead) {
  TempFolder folder;
  for (const std::string& whole : {Events(), Wandb()}) {
    size_t most = 0;
    for (size_t size = 13; size < whole.size(); size += 31) {
      folder.Write("cut.log", whole.substr(0, size));
      const ReadLog log = ReadAsRun(folder, "cut.log");
      EXPECT_GE(log.steps.size(), most) << "more bytes, fewer steps";
      most = std::max(most, log.steps.size());
      EXPECT_TRUE(!log.steps.empty() || !log.error.empty());
    }
    EXPECT_GE(most, 37u);
  }
}

TEST(ImportHostileTest, AWrongChecksumLeavesOneRecordOut) {
  TempFolder folder;
  std::string events = Events();
  const size_t record = events.size() / 40;
  events[20 * record + 20] ^= 1;  // data of the 21st record
  folder.Write("a.tfevents", events);
  ReadLog log = ReadAsRun(folder, "a.tfevents");
  EXPECT_EQ(log.steps.size(), 39u);
  EXPECT_FALSE(log.Find(20));
  EXPECT_NE(log.notes.find("1 record with a wrong checksum"), std::string::npos) << log.notes;
  events[30 * record] ^= 1;  // the length of the 31st: nothing behind it can be found
  folder.Write("a.tfevents", events);
  log = ReadAsRun(folder, "a.tfevents");
  EXPECT_EQ(log.steps.size(), 29u);
  EXPECT_NE(log.notes.find("length has a wrong checksum"), std::string::npos) << log.notes;
}

TEST(ImportHostileTest, LengthsBeyondTheFile) {
  TempFolder folder;
  // A sound checksum over a length of 2^63: nothing is allocated for it.
  std::string huge(8, '\0');
  huge[7] = '\x80';
  std::string record = EventRecord(huge);  // as data, to learn the checksum of those eight bytes
  const std::string header = huge + record.substr(record.size() - 4);
  folder.Write("a.tfevents", Events() + header + "tail");
  const ReadLog log = ReadAsRun(folder, "a.tfevents");
  EXPECT_EQ(log.steps.size(), 40u);
  EXPECT_NE(log.notes.find("ended in the middle"), std::string::npos) << log.notes;
}

TEST(ImportHostileTest, WrongBytesAnywhereNeverCrash) {
  TempFolder folder;
  std::mt19937 random(5);
  const std::pair<std::string, std::string> files[] = {
      {"e.tfevents", Events()},
      {"run-a.wandb", Wandb()},
      {"trainer_state.json", kState},
      {"l.jsonl", "{\"step\": 1, \"loss\": 2.5}\n{\"step\": 2, \"loss\": NaN}\n"},
      {"m.csv", "step,loss,\"a \"\"b\"\"\"\n1,2.5,x\n2,nan,\"y\nz\"\n"},
      {"t.log", "step 1 loss 2.5 grad_norm: tensor(nan) | 3/4 [00:01] loss scale: 1e400\n"},
  };
  int read = 0;
  for (const auto& [name, whole] : files) {
    for (int round = 0; round < 60; ++round) {
      std::string damaged = whole;
      const int changes = 1 + static_cast<int>(random() % 8);
      for (int i = 0; i < changes; ++i) {
        const size_t at = random() % damaged.size();
        if (random() % 4 == 0) {
          damaged.erase(at, random() % 20);
          if (damaged.empty()) damaged = "x";
        } else {
          damaged[at] = static_cast<char>(random());
        }
      }
      folder.Write(name, damaged);
      read += ReadAsRun(folder, name).error.empty() ? 1 : 0;
    }
    std::string noise(5000, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    folder.Write(name, noise);
    (void)ReadAsRun(folder, name);
    folder.Write(name, "");
    EXPECT_FALSE(ReadAsRun(folder, name).error.empty());
  }
  EXPECT_GT(read, 60);
}

TEST(ImportHostileTest, DeepAndLongAndMany) {
  TempFolder folder;
  folder.Write("deep.json", "{\"log_history\": " + std::string(200'000, '['));
  EXPECT_FALSE(ReadAsRun(folder, "deep.json").error.empty());
  std::string objects = "{\"loss\": 1, \"step\": 1}\n";
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  folder.Write("deep.jsonl", objects);
  EXPECT_EQ(ReadAsRun(folder, "deep.jsonl").steps.size(), 1u);
  folder.Write("long.log", "step 1 loss 2.5 " + std::string(30'000'000, 'x') + "\nstep 2 loss 2\n");
  const ReadLog log = ReadAsRun(folder, "long.log");
  EXPECT_EQ(log.steps.size(), 2u);
  EXPECT_NE(log.notes.find("very long line"), std::string::npos) << log.notes;
  folder.Write("cells.csv", "step,loss" + std::string(100'000, ',') + "\n1,2\n");
  (void)ReadAsRun(folder, "cells.csv");
  std::string tags;
  for (int i = 0; i < 30'000; ++i) tags += Scalar("loss_" + std::to_string(i), i, 1.0F);
  folder.Write("tags.tfevents", tags);
  EXPECT_FALSE(ReadAsRun(folder, "tags.tfevents").steps.empty());
}

TEST(ImportHostileTest, NamesFromFilesAreData) {
  TempFolder folder;
  folder.Write("a.tfevents", Scalar("loss", 1, 1.0F) + Scalar("evil\x1b[2J\nloss", 1, 1.0F) +
                                 Scalar(std::string(5000, 'n'), 1, 1.0F));
  auto answer = Call("run_summary", {{"run", "a.tfevents"}}, folder.path());
  ASSERT_TRUE(answer) << answer.error().Text();  // Call looks for control characters and sizes
}

}  // namespace
}  // namespace mpnanny::test
