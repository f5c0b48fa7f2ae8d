// list_runs finds what the other tools read as runs: logs of other programs as well.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/runs/recording.h"

namespace mpnanny::test {
namespace {

TEST(ListRunsTest, LogsOfOtherProgramsAreFoundInFolders) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("monitored");
  db.Step(0, {.loss = 1.0});
  std::filesystem::create_directories(folder.File("lightning_logs/version_0"));
  folder.Write("lightning_logs/version_0/metrics.csv", "step,train_loss\n0,2.0\n1,1.5\n2,1.25\n");
  std::filesystem::create_directories(folder.File("out/checkpoint-20"));
  folder.Write("out/checkpoint-20/trainer_state.json",
               R"({"log_history": [{"step": 10, "loss": 3.0}, {"step": 20, "loss": 2.5}]})");
  std::filesystem::create_directories(folder.File("broken"));
  folder.Write("broken/events.out.tfevents.1.host", "no record");
  auto output = Call("list_runs", {{"path", "."}}, folder.path());
  ASSERT_TRUE(output) << output.error().Text();
  EXPECT_EQ(output->structured["total"], 3) << output->text;
  EXPECT_EQ(output->structured["databases"], 1);
  EXPECT_NE(output->text.find("1 database and 2 logs of other programs"), std::string::npos)
      << output->text;
  int logs = 0;
  for (const Json& run : output->structured["runs"]) {
    if (!run.contains("format")) continue;
    ++logs;
    const std::string handle = run["run"];
    const bool table = handle.find("version_0") != std::string::npos;
    EXPECT_EQ(run["last_loss"], table ? 1.25 : 2.5) << run;
    EXPECT_EQ(run["steps"], table ? 3 : 2) << run;
    // The handle is what the other tools take.
    auto summary = Call("run_summary", {{"run", handle}}, folder.path());
    ASSERT_TRUE(summary) << summary.error().Text();
    EXPECT_EQ(summary->structured["loss"]["last"], table ? 1.25 : 2.5);
  }
  EXPECT_EQ(logs, 2);
}

}  // namespace
}  // namespace mpnanny::test
