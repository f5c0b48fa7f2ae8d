// The words of query_stats: extremes, rows of one value, and which steps of a range there are.
#include <gtest/gtest.h>

#include <string>

#include "tests/runs/recording.h"

namespace mpnanny::test {
namespace {

ToolOutput Told(const TempFolder& folder, Json arguments) {
  arguments["run"] = "m.db";
  auto output = Call("query_stats", arguments, folder.path());
  EXPECT_TRUE(output) << (output ? "" : output.error().Text());
  return output ? *output : ToolOutput{};
}

bool Holds(const ToolOutput& output, const std::string& words) {
  return output.text.find(words) != std::string::npos;
}

TEST(QueryStatsTextTest, TheLargestRateIsNoWorstOneAndZerosInARowAreToldOnce) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("r");
  for (int64_t step = 0; step < 100; ++step) {
    db.Step(step, {.loss = 1.0, .lr = step < 3 ? 1e-3 * static_cast<double>(step) : 0.0});
  }
  const ToolOutput lr = Told(folder, {{"metric", "lr"}});
  EXPECT_FALSE(Holds(lr, "worst")) << lr.text;
  EXPECT_TRUE(Holds(lr, "largest 0.002 at step 2, from 0 to 0.002")) << lr.text;
  EXPECT_EQ(lr.structured["series"][0]["largest"]["step"], 2);
  EXPECT_FALSE(lr.structured["series"][0].contains("worst"));
  EXPECT_TRUE(Holds(lr, "  1: 0.001  2: 0.002  3 to 99: 0 (")) << lr.text;
  EXPECT_FALSE(Holds(lr, "99: 0  ")) << lr.text;
  const ToolOutput loss = Told(folder, {{"metric", "loss"}});
  EXPECT_TRUE(Holds(loss, "1 throughout")) << loss.text;
  EXPECT_FALSE(Holds(loss, "worst")) << loss.text;
}

TEST(QueryStatsTextTest, ARangeSaysWhatOfItIsThere) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("r");
  const int64_t bad = db.Layer("bad"), good = db.Layer("good"), better = db.Layer("better");
  for (int64_t step = 0; step < 50; ++step) db.Step(step, {.loss = 1.0});
  for (const int64_t step : {0, 41, 42}) {
    db.Stat(step, bad, {.nan = step == 41 ? 128 : 0});
    db.Stat(step, good, {});
    db.Stat(step, better, {});
  }
  ToolOutput shares = Told(folder, {{"metric", "nonfinite_share"}, {"steps", "20..45"}});
  EXPECT_TRUE(Holds(shares, ", of steps 20 to 45, in which lie 2 samples (41, 42)."))
      << shares.text;
  // Tensors with nothing of it are counted, unless they are asked for.
  EXPECT_EQ(shares.structured["series"].size(), 1u) << shares.text;
  EXPECT_TRUE(Holds(shares, "2 tensors have 0 throughout and are left out")) << shares.text;
  shares = Told(folder, {{"metric", "nonfinite_share"}, {"layers", {"good"}}});
  EXPECT_EQ(shares.structured["series"].size(), 1u) << shares.text;
  EXPECT_FALSE(Holds(shares, "of steps")) << shares.text;
  // All of them alike: then that is the answer.
  shares = Told(folder, {{"metric", "nonfinite_share"}, {"steps", "42"}});
  EXPECT_EQ(shares.structured["series"].size(), 3u) << shares.text;
  const ToolOutput loss = Told(folder, {{"metric", "loss"}, {"steps", "40..80"}});
  EXPECT_TRUE(Holds(loss, ", of steps 40 to 80 (recorded: 40 to 49).")) << loss.text;
}

}  // namespace
}  // namespace mpnanny::test
