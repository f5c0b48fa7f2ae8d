#include "base/child_process.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/process_info.h"

namespace mpnanny {
namespace {

using Clock = ChildProcess::Clock;
using Status = ChildProcess::ReadStatus;
using std::chrono::milliseconds;
using std::chrono::seconds;

Clock::time_point Soon() { return Clock::now() + seconds(20); }

TEST(ChildProcess, WordsArePassedOnAsTheyAre) {
  const auto output = RunProgram({"printf", "%s|", "a b", "it's", "$HOME", ""}, seconds(20));
  ASSERT_TRUE(output) << output.error().Text();
  EXPECT_EQ(output->exit_code, 0);
  EXPECT_EQ(output->out, "a b|it's|$HOME||");
}

TEST(ChildProcess, IsTalkedToLineByLine) {
  const auto child = ChildProcess::Start({"cat"});
  ASSERT_TRUE(child) << child.error().Text();
  for (const std::string& line : {std::string("one"), std::string(300'000, 'x')}) {
    ASSERT_TRUE((*child)->WriteLine(line, Soon()));
    const auto echoed = (*child)->ReadLine(Soon());
    EXPECT_EQ(echoed.status, Status::kLine);
    EXPECT_EQ(echoed.text, line);
  }
  (*child)->CloseInput();
  EXPECT_EQ((*child)->ReadLine(Soon()).status, Status::kEnd);
  EXPECT_EQ((*child)->Wait(Soon()), 0);
}

TEST(ChildProcess, TellsExitCodeSignalAndTheLastOfStderr) {
  const auto failed = RunProgram({"sh", "-c", "echo out; echo why >&2; exit 7"}, seconds(20));
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->exit_code, 7);
  EXPECT_EQ(failed->out, "out\n");
  EXPECT_EQ(failed->err, "why\n");
  EXPECT_EQ(RunProgram({"sh", "-c", "kill -9 $$"}, seconds(20))->exit_code, 128 + 9);
  const auto loud =
      RunProgram({"sh", "-c", "head -c 1000000 /dev/zero >&2; echo end >&2"}, seconds(20));
  ASSERT_TRUE(loud);
  EXPECT_TRUE(loud->err.ends_with("end\n"));
  EXPECT_LE(loud->err.size(), 2 * ChildProcess::kMostErrorBytes);
}

TEST(ChildProcess, AProgramThatIsMissingOrCannotRunIsAnError) {
  const auto missing = ChildProcess::Start({"no-such-program-here"});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::kNotFound);
  const auto folder = ChildProcess::Start({"/"});
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().kind, ErrorKind::kInvalidInput);
}

TEST(ChildProcess, AWriterWhoseReaderIsGoneIsToldAndNotKilled) {
  const auto child = ChildProcess::Start({"true"});
  ASSERT_TRUE(child);
  EXPECT_EQ((*child)->Wait(Soon()), 0);
  EXPECT_FALSE((*child)->WriteLine(std::string(1 << 20, 'x'), Soon()));
}

TEST(ChildProcess, NoWaitGoesOnForEver) {
  const auto child = ChildProcess::Start({"sleep", "1000"});
  ASSERT_TRUE(child);
  EXPECT_EQ((*child)->ReadLine(Clock::now() + milliseconds(20)).status, Status::kTimeout);
  EXPECT_EQ((*child)->Wait(Clock::now() + milliseconds(20)), std::nullopt);
  EXPECT_FALSE((*child)->WriteLine(std::string(8 << 20, 'x'), Clock::now() + milliseconds(20)));
  const auto stuck = RunProgram({"sleep", "1000"}, milliseconds(20));
  ASSERT_TRUE(stuck);
  EXPECT_EQ(stuck->exit_code, std::nullopt);
}

TEST(ChildProcess, AProgramThatNeverPausesHasADeadlineToo) {
  for (const char* command : {"exec yes", "yes >&2; true"}) {
    const auto child = ChildProcess::Start({"sh", "-c", command});
    ASSERT_TRUE(child);
    const auto until = Clock::now() + milliseconds(100);
    const auto give_up = Soon();
    auto status = Status::kLine;
    while (status == Status::kLine && Clock::now() < give_up) {
      status = (*child)->ReadLine(until).status;
    }
    EXPECT_EQ(status, Status::kTimeout) << command;
    EXPECT_LE((*child)->errors().size(), 2 * ChildProcess::kMostErrorBytes + 4096);
  }
}

TEST(ChildProcess, WhatItStartedEndsWithIt) {
  const std::string file = ::testing::TempDir() + "grandchild_pid";
  std::filesystem::remove(file);
  int64_t grandchild = 0;
  {
    const auto child = ChildProcess::Start(
        {"sh", "-c", "trap '' TERM; sleep 1000 & echo $! > '" + file + "'; echo started; wait"});
    ASSERT_TRUE(child);
    ASSERT_EQ((*child)->ReadLine(Soon()).text, "started");
    std::ifstream(file) >> grandchild;
    ASSERT_GT(grandchild, 0);
  }
  const auto until = Soon();
  const double now = 4e9;  // any start time will do
  while (ProcessRuns(grandchild, now) && Clock::now() < until) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_FALSE(ProcessRuns(grandchild, now));
}

}  // namespace
}  // namespace mpnanny
