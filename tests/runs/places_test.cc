// Where databases lie: in folders that cannot be written, without their WAL, published across a
// network, replaced while they are read, among thousands.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "tests/runs/run_tools.h"

namespace mpnanny::test {
namespace fs = std::filesystem;
namespace {

using Places = RunToolsTest;

// A killed run's files as they are found elsewhere: no "-shm", in a folder of somebody else.
TEST_F(Places, WalOfAKilledRunInAFolderThatCannotBeWritten) {
  {
    Recording db(folder_.File("live.db"), /*wal=*/true);
    db.Execute("PRAGMA wal_autocheckpoint=0");
    db.Run("killed", "");
    for (int64_t step = 0; step < 50; ++step) db.Step(step, {.loss = 1.0});
    fs::create_directory(folder_.File("ro"));
    fs::copy_file(folder_.File("live.db"), folder_.File("ro/run.db"));
    fs::copy_file(folder_.File("live.db-wal"), folder_.File("ro/run.db-wal"));
    fs::copy_file(folder_.File("live.db"), folder_.File("ro/with_index.db"));
    fs::copy_file(folder_.File("live.db-wal"), folder_.File("ro/with_index.db-wal"));
    fs::copy_file(folder_.File("live.db-shm"), folder_.File("ro/with_index.db-shm"));
  }
  fs::permissions(folder_.path(), fs::perms(0755));
  fs::permissions(good_.path(), fs::perms(0755));
  for (const auto& entry : fs::directory_iterator(folder_.File("ro"))) {
    fs::permissions(entry.path(), fs::perms(0444));
  }
  fs::permissions(folder_.File("ro"), fs::perms(0555));
  const bool root = geteuid() == 0;
  ASSERT_TRUE(!root || seteuid(65534) == 0);
  const auto plain = Answered(folder_.File("ro/run.db"));
  const auto with_index = Answered(folder_.File("ro/with_index.db"));
  ASSERT_TRUE(!root || seteuid(0) == 0);
  auto summary = Call("run_summary", {{"run", "ro/run.db"}}, folder_.path());
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->structured["steps"], 50) << "the WAL was not read";
  EXPECT_FALSE(fs::exists(folder_.File("ro/run.db-shm"))) << "a file was left behind";
  fs::permissions(folder_.File("ro"), fs::perms(0755));
}

TEST_F(Places, AWalThatNobodyHasOpenIsReadAndNotTouched) {
  {
    Recording db(folder_.File("live.db"), /*wal=*/true);
    db.Execute("PRAGMA wal_autocheckpoint=0");
    db.Run("killed", "");
    for (int64_t step = 0; step < 2000; ++step) db.Step(step, {.loss = 1.0});
    fs::copy_file(folder_.File("live.db"), folder_.File("copy.db"));
    fs::copy_file(folder_.File("live.db-wal"), folder_.File("copy.db-wal"));
  }
  const std::string before = ReadAll(folder_.File("copy.db"));
  const std::string wal = ReadAll(folder_.File("copy.db-wal"));
  ASSERT_GT(wal.size(), 100'000u);
  Answered(folder_.File("copy.db"));
  auto summary = Call("run_summary", {{"run", "copy.db"}}, folder_.path());
  ASSERT_TRUE(summary) << summary.error().Text();
  EXPECT_EQ(summary->structured["steps"], 2000);
  EXPECT_EQ(ReadAll(folder_.File("copy.db")), before);
  EXPECT_EQ(ReadAll(folder_.File("copy.db-wal")), wal);
  EXPECT_FALSE(fs::exists(folder_.File("copy.db-shm")));
  // A WAL that was cut ends at its last whole transaction.
  folder_.Write("copy.db-wal", wal.substr(0, wal.size() / 2 + 777));
  auto half = Call("run_summary", {{"run", "copy.db"}}, folder_.path());
  ASSERT_TRUE(half) << half.error().Text();
  EXPECT_GT(half->structured["steps"], 500);
  EXPECT_LT(half->structured["steps"], 1500);
  std::string noise = wal;
  std::mt19937 random(3);
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<char>(random());
  folder_.Write("copy.db-wal", noise);
  for (const RunTool& tool : RunTools()) (void)Ask(tool, folder_.File("copy.db"));
}

TEST_F(Places, CopiedWithoutItsWal) {
  HealthyRun(folder_.File("live.db"), /*wal=*/true, "");
  Recording writer(folder_.File("live.db"), true);
  writer.Execute("UPDATE step SET loss=7");
  fs::copy_file(folder_.File("live.db"), folder_.File("copy.db"));
  for (const ToolOutput& output : Answered(folder_.File("copy.db"))) {
    EXPECT_NE(output.text.find("without its '-wal'"), std::string::npos) << output.text;
  }
}

// A monitor that records across a network publishes whole copies: plain files of a run that goes
// on.
TEST_F(Places, APublishedCopyIsARunThatGoesOn) {
  HealthyRun(folder_.File("published.db"), /*wal=*/false, "");
  const auto status = [&](int seconds_ago) {
    Recording(folder_.File("published.db"))
        .Execute("UPDATE run SET heartbeat_at=strftime('%s','now')-" + std::to_string(seconds_ago));
    auto summary = Call("run_summary", {{"run", "published.db"}}, folder_.path());
    EXPECT_TRUE(summary);
    return summary ? summary->structured["status"] : Json();
  };
  EXPECT_EQ(status(20), "running");
  EXPECT_EQ(status(600), "killed");
  // Copies of a large file come more rarely.
  {
    Recording db(folder_.File("published.db"));
    db.Execute(
        "CREATE TABLE IF NOT EXISTS filler(x); INSERT INTO filler VALUES (zeroblob(80000000))");
  }
  EXPECT_EQ(status(75), "running");
  fs::permissions(folder_.path(), fs::perms(0555));
  Answered(folder_.File("published.db"));
  fs::permissions(folder_.path(), fs::perms(0755));
}

TEST_F(Places, ReplacedAndDeletedWhileItIsRead) {
  HealthyRun(folder_.File("one.db"));
  HealthyRun(folder_.File("two.db"), /*wal=*/true);
  const std::string path = folder_.File("run.db");
  std::atomic<bool> stop = false;
  std::thread other([&] {
    for (int round = 0; !stop; ++round) {
      std::error_code ec;
      fs::copy_file(folder_.File(round % 2 ? "one.db" : "two.db"), path + ".part",
                    fs::copy_options::overwrite_existing, ec);
      fs::rename(path + ".part", path, ec);
      if (round % 3 == 0) fs::remove(path, ec);
      if (round % 5 == 0) std::ofstream(path, std::ios::binary) << "SQLite form";
    }
  });
  int answered = 0;
  std::map<ErrorKind, int> refused;
  const auto ask = [&](const RunTool& tool) {
    auto output = Ask(tool, path);
    if (output) {
      ++answered;
    } else {
      ++refused[output.error().kind];
    }
  };
  for (int round = 0; round < 150; ++round) {
    for (const RunTool& tool : RunTools()) ask(tool);
  }
  // The moment between finding a file and asking what it is was hit once in a thousand calls.
  for (const RunTool& tool : RunTools()) {
    if (tool.name != "list_runs") continue;
    for (int round = 0; round < 3000; ++round) ask(tool);
  }
  stop = true;
  other.join();
  EXPECT_GT(answered, 0);
  EXPECT_EQ(refused[ErrorKind::kInternal], 0);
}

TEST_F(Places, AFolderOfAllOfThemIsListedAllTheSame) {
  HealthyRun(folder_.File("a/good.db"));
  folder_.Write("b/empty.db", "");
  folder_.Write("b/text.db", "no");
  folder_.Write("b/noise.db", std::string("SQLite format 3\0", 16) + std::string(5000, '\x7f'));
  HealthyRun(folder_.File("c/newer.db"));
  Recording(folder_.File("c/newer.db")).Execute("PRAGMA user_version=99");
  HealthyRun(folder_.File("c/locked.db"));
  Recording writer(folder_.File("c/locked.db"));
  writer.Execute("BEGIN EXCLUSIVE");
  fs::create_directory_symlink(folder_.path(), folder_.File("a/loop"));
  fs::create_directory_symlink("..", folder_.File("b/up"));
  ASSERT_EQ(mkfifo(folder_.File("b/fifo.db").c_str(), 0600), 0);
  auto listed = Call("list_runs", {{"path", "."}}, folder_.path());
  ASSERT_TRUE(listed) << listed.error().Text();
  EXPECT_EQ(listed->structured["total"], 1);
  for (const char* told : {"noise.db", "newer.db", "locked.db"}) {
    EXPECT_NE(listed->text.find(told), std::string::npos) << listed->text;
  }
}

TEST_F(Places, ThousandsOfFilesAreFoundQuicklyAndWithinLimits) {
  HealthyRun(folder_.File("seed.db"));
  const std::string seed = ReadAll(folder_.File("seed.db"));
  constexpr int kFiles = 400;
  for (int i = 0; i < kFiles; ++i) {
    folder_.Write("sweep/" + std::to_string(i % 40) + "/" + std::to_string(i) + "/metrics.db",
                  seed);
  }
  for (int i = 0; i < 3000; ++i) folder_.Write("sweep/other/" + std::to_string(i) + ".pt", "x");
  // Too deep to be looked at.
  std::string deep = "sweep";
  for (int i = 0; i < 20; ++i) deep += "/d";
  folder_.Write(deep + "/metrics.db", seed);
  const auto began = std::chrono::steady_clock::now();
  auto listed = Call("list_runs", {{"path", "sweep"}}, folder_.path());
  const auto took = std::chrono::steady_clock::now() - began;
  ASSERT_TRUE(listed) << listed.error().Text();
  EXPECT_EQ(listed->structured["total"], kFiles);
  EXPECT_LT(took, std::chrono::seconds(20));
  auto newest = Call("run_summary", {{"run", "sweep"}}, folder_.path());
  EXPECT_TRUE(newest) << newest.error().Text();
}

}  // namespace
}  // namespace mpnanny::test
