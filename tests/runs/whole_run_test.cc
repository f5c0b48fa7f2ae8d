// Passes over a whole run: the window of last values that they keep, and how they end where time
// does.
#include "engines/runs/whole_run.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "base/data_files.h"
#include "engines/diagnosis/facts/step_pass.h"
#include "engines/diagnosis/summary/report.h"
#include "engines/diagnosis/summary/summary.h"
#include "engines/runs/last_values.h"
#include "tests/runs/recording.h"
#include "tools/list_runs/listing.h"
#include "tools/list_runs/verdicts.h"

namespace mpnanny::test {
namespace {

TEST(WholeRunTest, LastValuesAreThoseOfAQueue) {
  for (const size_t most : {1, 2, 7, 24}) {
    runs::LastValues values(most);
    std::deque<double> queue;
    std::mt19937 random(5);
    EXPECT_TRUE(values.All().empty());
    for (int i = 0; i < 200; ++i) {
      const double value = static_cast<double>(random() % 1000);
      values.Push(value);
      queue.push_back(value);
      if (queue.size() > most) queue.pop_front();
      ASSERT_EQ(values.size(), queue.size());
      ASSERT_TRUE(std::equal(queue.begin(), queue.end(), values.All().begin(), values.All().end()));
      const auto last = values.Last(3);
      ASSERT_EQ(last.size(), std::min<size_t>(3, queue.size()));
      ASSERT_TRUE(std::equal(last.rbegin(), last.rend(), queue.rbegin()));
    }
  }
}

TEST(WholeRunTest, WithoutTimeTheFirstStepsAreToldAndThatTheyAreNotAll) {
  TempFolder folder;
  {
    Recording db(folder.File("m.db"));
    db.Run("long");
    db.Execute("BEGIN");
    for (int64_t step = 0; step < 10'000; ++step) db.Step(step, {.loss = 2.0});
    db.Execute("COMMIT");
  }
  auto roots = AllowedRoots::Create({folder.path()});
  auto source = runs::OpenRun(folder.File("m.db"), *roots, {});
  ASSERT_TRUE(source);

  const auto data = DataFiles::Create();
  ASSERT_TRUE(data);
  const ToolContext context{.roots = *roots, .data = *data, .cancel = {}, .progress = nullptr};
  auto cut = summary::Summarize(*source, context, std::chrono::seconds(0));
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->steps, 4096);
  EXPECT_EQ(cut->ended_after, 4095);
  const Json told = summary::SummaryJson(*source, *cut, 8000);
  ASSERT_FALSE(told["notes"].empty());
  EXPECT_NE(told["notes"][0].get<std::string>().find("steps after 4095"), std::string::npos);

  for (const bool in_time : {false, true}) {
    diagnosis::Facts facts;
    diagnosis::StepPass pass(std::chrono::seconds(in_time ? 20 : 0));
    ASSERT_TRUE(pass.Read(*source, facts));
    EXPECT_EQ(facts.summary.steps, in_time ? 10'000 : 4096);
    EXPECT_EQ(facts.limits.size(), in_time ? 0 : 1);
  }
  // What was cut short is not remembered.
  auto whole = summary::Summarize(*source, context);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->steps, 10'000);
  EXPECT_FALSE(whole->ended_after);
}

TEST(WholeRunTest, AListingWithoutTimeSaysHowManyFilesItLookedAt) {
  TempFolder folder;
  for (const char* file : {"a.db", "b.db", "c.db"}) {
    Recording db(folder.File(file));
    db.Run(file);
    db.Step(0, {.loss = 1.0});
  }
  auto roots = AllowedRoots::Create({folder.path()});
  auto cut = list_runs::ListRuns(folder.path(), *roots, {}, std::chrono::seconds(0));
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->runs.size(), 1u);
  ASSERT_EQ(cut->notes.size(), 1u);
  EXPECT_NE(cut->notes[0].find("1 of 3 databases"), std::string::npos);
  auto whole = list_runs::ListRuns(folder.path(), *roots, {});
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->runs.size(), 3u);
  EXPECT_TRUE(whole->notes.empty());
}

TEST(WholeRunTest, AListedRunThatThereIsNoTimeToJudgeHasNoVerdict) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("r");
  for (int64_t step = 0; step < 30; ++step) db.Step(step, {.loss = 1.0});
  auto roots = AllowedRoots::Create({folder.path()});
  auto listing = list_runs::ListRuns(folder.path(), *roots, {});
  ASSERT_TRUE(listing);
  const DataFiles data = *DataFiles::Create();
  const ToolContext context{.roots = *roots, .data = data, .cancel = {}, .progress = nullptr};
  list_runs::Verdicts late(context, std::chrono::seconds(0));
  EXPECT_EQ(late.Of(listing->runs[0]), std::nullopt);
  EXPECT_EQ(late.left_out(), 1);
  list_runs::Verdicts verdicts(context);
  EXPECT_EQ(verdicts.Of(listing->runs[0]), Health::kHealthy);
  EXPECT_EQ(verdicts.left_out(), 0);
}

// A database of two runs is counted by run, one of a single run as a whole.
TEST(WholeRunTest, StepsAreCountedByRun) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("first");
  for (int64_t step = 0; step < 5; ++step) db.Step(step, {.loss = 1.0});
  const auto steps = [&] {
    auto listed = Call("list_runs", {{"path", "m.db"}}, folder.path());
    EXPECT_TRUE(listed);
    std::vector<int64_t> counts;
    for (const Json& run : listed->structured["runs"]) counts.push_back(run["steps"]);
    return counts;
  };
  EXPECT_EQ(steps(), std::vector<int64_t>({5}));
  db.Run("second", "closed", "fp16", 1.8e9);
  EXPECT_EQ(steps(), std::vector<int64_t>({0, 5}));
  for (int64_t step = 0; step < 3; ++step) db.Step(step, {.loss = 1.0});
  EXPECT_EQ(steps(), std::vector<int64_t>({3, 5}));
}

}  // namespace
}  // namespace mpnanny::test
