// Opening what should be a monitor's database: every way in which a file can be wrong has a clear
// answer.
#include "engines/runs/database.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "engines/runs/run.h"
#include "tests/runs/recording.h"

namespace mpnanny::test {
namespace fs = std::filesystem;
namespace {

std::string FileBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Result<ToolOutput> Summarize(const TempFolder& folder, const std::string& name) {
  return Call("run_summary", {{"run", name}}, folder.path());
}

// The error of run_summary on this file; fails the test if there is none or if it gives no hint
// what to do.
Error Refused(const TempFolder& folder, const std::string& name) {
  auto output = Summarize(folder, name);
  EXPECT_FALSE(output) << (output ? output->text : "");
  return output ? Error{} : output.error();
}

void ShortRun(const std::string& path, bool wal = false, const std::string& ended = "closed") {
  Recording db(path, wal);
  db.Run("healthy", ended);
  const int64_t layer = db.Layer("fc");
  db.Execute("BEGIN");
  for (int64_t step = 0; step < 50; ++step) {
    db.Step(step, {.loss = 2.0 - 0.02 * static_cast<double>(step)});
    db.Stat(step, layer, {});
  }
  db.Execute("COMMIT");
}

TEST(DatabaseTest, WrongFilesAreNamedWithWhatIsWrong) {
  TempFolder folder;
  EXPECT_EQ(Refused(folder, "nothing.db").kind, ErrorKind::kNotFound);
  fs::create_directory(folder.File("sub"));
  EXPECT_NE(Refused(folder, "sub").message.find("is a folder"), std::string::npos);
  folder.Write("empty.db", "");
  EXPECT_NE(Refused(folder, "empty.db").message.find("is empty"), std::string::npos);
  folder.Write("text.db", "step=1 loss=2.0\n");
  EXPECT_NE(Refused(folder, "text.db").Text().find("diagnose_run"), std::string::npos);
  folder.Write("short.db", std::string_view("SQLite format 3\0", 16));
  EXPECT_EQ(Refused(folder, "short.db").kind, ErrorKind::kDataCorrupt);

  std::mt19937 random(7);
  std::string noise(8192, '\0');
  for (char& c : noise) c = static_cast<char>(random());
  folder.Write("noise.db", noise);
  EXPECT_NE(Refused(folder, "noise.db").message.find("not a SQLite database"), std::string::npos);
  const std::string behind_header = std::string("SQLite format 3\0", 16) + noise;
  folder.Write("hostile.db", behind_header);
  EXPECT_EQ(Refused(folder, "hostile.db").kind, ErrorKind::kDataCorrupt);
}

TEST(DatabaseTest, OtherProgramsAndOtherVersionsAreTold) {
  TempFolder folder;
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(folder.File("other.db").c_str(), &other), SQLITE_OK);
  sqlite3_exec(other, "CREATE TABLE t(x)", nullptr, nullptr, nullptr);
  sqlite3_close(other);
  EXPECT_NE(Refused(folder, "other.db").message.find("another program"), std::string::npos);

  ASSERT_EQ(sqlite3_open(folder.File("old.db").c_str(), &other), SQLITE_OK);
  sqlite3_exec(other, "CREATE TABLE layer_stats(x); CREATE TABLE alerts(x)", nullptr, nullptr,
               nullptr);
  sqlite3_close(other);
  EXPECT_NE(Refused(folder, "old.db").message.find("earlier Python monitor"), std::string::npos);

  ShortRun(folder.File("new.db"));
  Recording(folder.File("new.db")).Execute("PRAGMA user_version=99");
  const Error newer = Refused(folder, "new.db");
  EXPECT_NE(newer.message.find("version 99"), std::string::npos);
  EXPECT_NE(newer.hint.find("update mpnanny"), std::string::npos);

  ShortRun(folder.File("bare.db"));
  Recording(folder.File("bare.db")).Execute("DROP TABLE step");
  EXPECT_EQ(Refused(folder, "bare.db").kind, ErrorKind::kDataCorrupt);
}

TEST(DatabaseTest, TruncatedAndOverwrittenFilesNeverCrash) {
  TempFolder folder;
  ShortRun(folder.File("whole.db"));
  const std::string whole = FileBytes(folder.File("whole.db"));
  for (size_t size = 100; size < whole.size(); size += whole.size() / 23 + 1) {
    folder.Write("cut.db", whole.substr(0, size));
    auto output = Summarize(folder, "cut.db");
    if (!output) {
      EXPECT_EQ(output.error().kind, ErrorKind::kDataCorrupt) << output.error().Text();
    }
  }
  std::mt19937 random(11);
  int refused = 0;
  for (int round = 0; round < 60; ++round) {
    std::string damaged = whole;
    for (int i = 0; i < 200; ++i) {
      damaged[100 + random() % (damaged.size() - 100)] = static_cast<char>(random());
    }
    folder.Write("damaged.db", damaged);
    refused += Summarize(folder, "damaged.db") ? 0 : 1;
    (void)Call("query_alerts", {{"run", "damaged.db"}}, folder.path());
    (void)Call("diagnose_run", {{"run", "damaged.db"}}, folder.path());
  }
  EXPECT_GT(refused, 0);
}

TEST(DatabaseTest, LiveDatabaseIsReadWhileItsWriterHoldsATransaction) {
  TempFolder folder;
  ShortRun(folder.File("live.db"), /*wal=*/true, /*ended=*/"");
  Recording writer(folder.File("live.db"), true);
  writer.Execute("BEGIN IMMEDIATE; UPDATE step SET loss = 9");
  auto during = Summarize(folder, "live.db");
  ASSERT_TRUE(during) << during.error().Text();
  EXPECT_EQ(during->structured["steps"], 50);
  EXPECT_EQ(during->structured["loss"]["first"], 2);
  writer.Execute("COMMIT");
  auto after = Summarize(folder, "live.db");
  ASSERT_TRUE(after);
  EXPECT_EQ(after->structured["loss"]["first"], 9);
  // No read transaction stays behind: the writer can fold its whole WAL into the file.
  writer.Execute("PRAGMA wal_checkpoint(TRUNCATE)");
  EXPECT_EQ(fs::file_size(folder.File("live.db-wal")), 0u);
}

TEST(DatabaseTest, ExclusivelyLockedDatabaseSaysSo) {
  TempFolder folder;
  ShortRun(folder.File("locked.db"));
  Recording writer(folder.File("locked.db"));
  writer.Execute("BEGIN EXCLUSIVE");
  const Error error = Refused(folder, "locked.db");
  EXPECT_EQ(error.kind, ErrorKind::kUnavailable);
  EXPECT_NE(error.message.find("locked"), std::string::npos);
  writer.Execute("ROLLBACK");
  EXPECT_TRUE(Summarize(folder, "locked.db"));
}

TEST(DatabaseTest, ReadingLeavesNoFileBehindAndChangesNothing) {
  TempFolder folder;
  ShortRun(folder.File("a.db"), /*wal=*/true);
  ASSERT_FALSE(
      fs::exists(folder.File("a.db-wal")));  // SQLite folds it in when the last writer closes
  const std::string before = FileBytes(folder.File("a.db"));
  ASSERT_TRUE(Summarize(folder, "a.db"));
  ASSERT_TRUE(Call("query_alerts", {{"run", "a.db"}}, folder.path()));
  ASSERT_TRUE(Call("list_runs", {{"path", "."}}, folder.path()));
  EXPECT_EQ(FileBytes(folder.File("a.db")), before);
  EXPECT_FALSE(fs::exists(folder.File("a.db-wal")));
  EXPECT_FALSE(fs::exists(folder.File("a.db-shm")));
}

TEST(DatabaseTest, CopyWithoutItsWalIsToldApart) {
  TempFolder folder;
  {
    Recording db(folder.File("run.db"), /*wal=*/true);
    db.Execute("PRAGMA wal_autocheckpoint=0");
    db.Run("r", "");
    db.Step(0, {.loss = 1.0});
    fs::copy_file(folder.File("run.db"), folder.File("copy.db"));
    ASSERT_GT(fs::file_size(folder.File("run.db-wal")), 0u);
  }
  // Everything but the first page was in the WAL.
  const Error error = Refused(folder, "copy.db");
  EXPECT_NE(error.Text().find("-wal"), std::string::npos) << error.Text();

  // A copy that has the tables but not the last changes is read, with a warning.
  ShortRun(folder.File("late.db"), true, "");
  Recording writer(folder.File("late.db"), true);
  writer.Execute("UPDATE step SET loss=7");
  fs::copy_file(folder.File("late.db"), folder.File("late_copy.db"));
  auto output = Summarize(folder, "late_copy.db");
  ASSERT_TRUE(output) << output.error().Text();
  EXPECT_NE(output->text.find("without its '-wal'"), std::string::npos) << output->text;
}

TEST(DatabaseTest, WalInAFolderThatCannotBeWritten) {
  if (geteuid() != 0) GTEST_SKIP() << "needs to become another user";
  TempFolder folder;
  {
    Recording db(folder.File("run.db"), /*wal=*/true);
    db.Execute("PRAGMA wal_autocheckpoint=0");
    db.Run("r", "");
    db.Step(0, {.loss = 1.0});
    fs::create_directory(folder.File("ro"));
    fs::copy_file(folder.File("run.db"), folder.File("ro/run.db"));
    fs::copy_file(folder.File("run.db-wal"), folder.File("ro/run.db-wal"));
  }
  ShortRun(folder.File("ro/plain.db"), /*wal=*/true);
  fs::permissions(folder.path(), fs::perms(0755));
  for (const char* name : {"ro/run.db", "ro/run.db-wal", "ro/plain.db"}) {
    fs::permissions(folder.File(name), fs::perms(0644));
  }
  fs::permissions(folder.File("ro"), fs::perms(0555));
  ASSERT_EQ(seteuid(65534), 0);
  auto with_wal = Summarize(folder, "ro/run.db");
  auto plain = Summarize(folder, "ro/plain.db");
  ASSERT_EQ(seteuid(0), 0);
  ASSERT_TRUE(with_wal) << with_wal.error().Text();
  EXPECT_EQ(with_wal->structured["steps"], 1);
  EXPECT_TRUE(plain) << plain.error().Text();
}

TEST(DatabaseTest, CancelledCallStopsInsideAQuery) {
  TempFolder folder;
  ShortRun(folder.File("a.db"));
  CancelSource source;
  auto database = runs::Database::Open(folder.File("a.db"), source.token());
  ASSERT_TRUE(database);
  auto endless = (*database)->Prepare(
      "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n) SELECT max(x) FROM n");
  ASSERT_TRUE(endless);
  source.Cancel();
  auto row = endless->Next();
  ASSERT_FALSE(row);
  EXPECT_EQ(row.error().kind, ErrorKind::kCancelled);
}

TEST(DatabaseTest, NothingButSelectGoesThrough) {
  TempFolder folder;
  ShortRun(folder.File("a.db"));
  auto database = runs::Database::Open(folder.File("a.db"), {});
  ASSERT_TRUE(database);
  for (const char* sql : {"DELETE FROM step", "ATTACH 'x.db' AS x", "PRAGMA journal_mode=DELETE",
                          "CREATE TEMP TABLE t(x)", "COMMIT"}) {
    auto statement = (*database)->Prepare(sql);
    EXPECT_FALSE(statement && statement->Next()) << sql;
  }
}

}  // namespace
}  // namespace mpnanny::test
