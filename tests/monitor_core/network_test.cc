// A database whose path is on a network file system (stood in for by RecorderOptions::network): the
// live file is on this machine, copies are published whole.
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <thread>

#include "base/os_file_system.h"
#include "base/process_info.h"
#include "engines/runs/steps.h"
#include "monitor/core/recorder.h"

namespace mpnanny {
namespace {

namespace fs = std::filesystem;

class NetworkTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("mpnanny-network-" + std::to_string(CurrentProcess()));
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "node");
    fs::create_directories(folder_ / "share");
    path_ = (folder_ / "share" / "metrics.db").string();
    setenv("TMPDIR", (folder_ / "node").c_str(), 1);
  }
  void TearDown() override {
    unsetenv("TMPDIR");
    fs::remove_all(folder_);
  }

  std::unique_ptr<Recorder> Open(double started_at = 1000) const {
    RecorderOptions options;
    options.path = path_;
    options.network = true;
    options.run.name = "test";
    options.run.started_at = started_at;
    Result<std::unique_ptr<Recorder>> recorder = Recorder::Open(std::move(options));
    EXPECT_TRUE(recorder) << (recorder ? "" : recorder.error().Text());
    return recorder ? *std::move(recorder) : nullptr;
  }

  static void Steps(Recorder& recorder, int64_t first, int64_t count, double loss = 1) {
    StepEnd end;
    for (int64_t step = first; step < first + count; ++step) {
      recorder.BeginStep(step);
      end.loss = loss;
      recorder.EndStep(end);
    }
  }

  // Waits, for a few seconds at most, until the query has this answer at the published path.
  void Await(const std::string& sql, const std::string& answer) const {
    for (int i = 0; i < 200 && Ask(path_, sql) != answer; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    EXPECT_EQ(Ask(path_, sql), answer);
  }

  static std::string Ask(const std::string& path, const std::string& sql) {
    sqlite3* connection = nullptr;
    if (sqlite3_open_v2(path.c_str(), &connection, SQLITE_OPEN_READONLY, nullptr) != SQLITE_OK)
      return "cannot be opened";
    sqlite3_stmt* statement = nullptr;
    std::string text = "no row";
    if (sqlite3_prepare_v2(connection, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK)
      text = sqlite3_errmsg(connection);
    else if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_text(statement, 0) != nullptr)
      text = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    sqlite3_close(connection);
    return text;
  }

  static int Mode(const fs::path& path) {
    struct stat info{};
    EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
    return static_cast<int>(info.st_mode & 0777);
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(NetworkTest, TheLiveFileIsPrivateAndOfThisMachineAndTheEndLeavesOnePlainFile) {
  const auto recorder = Open();
  const fs::path live = recorder->path();
  EXPECT_TRUE(live.string().starts_with((folder_ / "node").string())) << live;
  EXPECT_EQ(recorder->published(), fs::canonical(path_).string());
  EXPECT_NE(recorder->note().find(live.string()), std::string::npos);
  EXPECT_EQ(Mode(live.parent_path()), 0700);
  EXPECT_EQ(Mode(live.parent_path().parent_path()), 0700);
  Steps(*recorder, 0, 10);
  for (const char* suffix : {"", "-wal", "-shm", "-ring"}) {
    EXPECT_EQ(Mode(live.string() + suffix), 0600) << suffix;
  }
  ASSERT_TRUE(recorder->Close("closed"));
  EXPECT_EQ(Ask(path_, "SELECT count(*) FROM step"), "10");
  EXPECT_EQ(Ask(path_, "SELECT end_reason FROM run"), "closed");
  EXPECT_EQ(Ask(path_, "PRAGMA integrity_check"), "ok");
  EXPECT_EQ(Ask(path_, "PRAGMA journal_mode"), "delete");
  EXPECT_EQ(Mode(path_), 0600);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "share"), {}), 1);
  EXPECT_FALSE(fs::exists(live.parent_path()));
}

TEST_F(NetworkTest, TheStartAndAnErrorArePublishedWhileTheRunGoesOn) {
  const auto recorder = Open();
  Await("SELECT count(*) FROM run WHERE ended_at IS NULL", "1");
  Steps(*recorder, 0, 5);
  Steps(*recorder, 5, 1, std::numeric_limits<double>::quiet_NaN());
  Await("SELECT count(*) FROM alert WHERE type = 'LOSS_NAN'", "1");
  EXPECT_EQ(Ask(path_, "SELECT max(step) FROM step"), "5");
  EXPECT_EQ(Ask(path_, "PRAGMA integrity_check"), "ok");
  ASSERT_TRUE(recorder->Close("closed"));
}

TEST_F(NetworkTest, AfterAKillTheCopyOpensTheLiveFileHasAllAndTheNextRunGoesOnInIt) {
  int channel[2];
  ASSERT_EQ(pipe(channel), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto recorder = Open(1234);
    Steps(*recorder, 0, 300);
    const std::string live = recorder->path();
    if (write(channel[1], live.data(), live.size()) < 0) _exit(1);
    close(channel[1]);
    pause();
    _exit(1);
  }
  close(channel[1]);
  std::string live(4096, '\0');
  const ssize_t size = read(channel[0], live.data(), live.size());
  close(channel[0]);
  Await("SELECT count(*) FROM run", "1");
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  ASSERT_GT(size, 0);
  live.resize(static_cast<size_t>(size));
  EXPECT_EQ(Ask(path_, "PRAGMA integrity_check"), "ok");
  const auto read_steps = [](const std::string& path) {
    int64_t count = 0;
    auto source = runs::OpenRun(path, AllowedRoots::Unrestricted(), CancelToken());
    EXPECT_TRUE(source) << (source ? "" : source.error().Text());
    if (!source) return count;
    EXPECT_TRUE(runs::ForEachStep(*source, {}, [&](const runs::StepRow&) { return ++count > 0; }));
    return count;
  };
  EXPECT_LE(read_steps(path_), 300);
  EXPECT_EQ(read_steps(live), 300);  // the ring merged
  {
    const auto recorder = Open(2000);
    EXPECT_EQ(recorder->path(), live);
    Steps(*recorder, 300, 10);
    ASSERT_TRUE(recorder->Close("closed"));
  }
  EXPECT_EQ(Ask(path_, "SELECT count(*) FROM step WHERE run_id = 1"), "300");
  EXPECT_EQ(Ask(path_,
                "SELECT count(*) || ',' || parent FROM step JOIN run USING (run_id) WHERE "
                "run_id = 2"),
            "10,1");
}

TEST_F(NetworkTest, AResumedRunGoesOnInTheFileThatWasPublished) {
  for (int64_t first : {0, 10}) {
    const auto recorder = Open(1000 + static_cast<double>(first));
    Steps(*recorder, first, 10);
    ASSERT_TRUE(recorder->Close("closed"));
  }
  EXPECT_EQ(Ask(path_, "SELECT group_concat(run_id || ':' || coalesce(parent, 0)) FROM run"),
            "1:0,2:1");
  EXPECT_EQ(Ask(path_, "SELECT count(*) FROM step"), "20");
}

TEST_F(NetworkTest, AnotherMachinesFileIsNotReplaced) {
  const auto recorder = Open();
  Await("SELECT count(*) FROM run", "1");
  fs::remove(path_);
  std::ofstream(path_) << "of another machine";
  Steps(*recorder, 0, 10);
  ASSERT_TRUE(recorder->Close("closed"));
  std::string kept;
  std::getline(std::ifstream(path_), kept);
  EXPECT_EQ(kept, "of another machine");
  EXPECT_NE(recorder->published(), path_);
  EXPECT_EQ(Ask(recorder->published(), "SELECT count(*) FROM step"), "10");
}

TEST_F(NetworkTest, WhatCannotBePublishedStaysInTheLiveFile) {
  const auto recorder = Open();
  Await("SELECT count(*) FROM run", "1");
  Steps(*recorder, 0, 10);
  fs::rename(folder_ / "share", folder_ / "gone");
  std::ofstream(folder_ / "share") << "no folder any more";
  const Result<void> closed = recorder->Close("closed");
  ASSERT_FALSE(closed);
  EXPECT_NE(closed.error().message.find(recorder->path()), std::string::npos);
  EXPECT_EQ(Ask(recorder->path(), "SELECT count(*) FROM step"), "10");
}

TEST_F(NetworkTest, AForeignDatabaseIsRefusedAndLeftAlone) {
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "CREATE TABLE mine (x)", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(other);
  const auto before = fs::last_write_time(path_);
  RecorderOptions options;
  options.path = path_;
  options.network = true;
  const auto refused = Recorder::Open(std::move(options));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().Text().find("another program"), std::string::npos);
  EXPECT_NE(refused.error().Text().find(fs::canonical(path_).string()), std::string::npos);
  EXPECT_EQ(fs::last_write_time(path_), before);
  EXPECT_EQ(Ask(path_, "SELECT name FROM sqlite_schema"), "mine");
}

TEST_F(NetworkTest, AFolderThatOthersMayEnterIsRefused) {
  const Result<std::string> folder = PrivateLocalFolder();
  ASSERT_TRUE(folder);
  EXPECT_EQ(fs::path(*folder).parent_path(), folder_ / "node");
  ASSERT_EQ(chmod(folder->c_str(), 0777), 0);
  const Result<std::string> next = PrivateLocalFolder();
  EXPECT_TRUE(!next || *next != *folder);
  fs::remove_all(*folder);
  fs::create_symlink(folder_ / "share", *folder);
  EXPECT_FALSE(MakePrivateFolder(*folder));
}

TEST_F(NetworkTest, ThisMachinesOwnFileSystemsAreNotTakenForOne) {
  EXPECT_FALSE(OnNetworkFileSystem("/proc"));
  EXPECT_FALSE(OnNetworkFileSystem((folder_ / "not" / "there" / "yet.db").string()));
}

}  // namespace
}  // namespace mpnanny
