// What is remembered of a run goes by the state of its files: whatever happens to one of them, the
// next answer is that of a fresh process.
#include "engines/runs/remembered.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <thread>

#include "tests/runs/recording.h"

namespace mpnanny::test {
namespace {

namespace fs = std::filesystem;

void RecordLosses(const std::string& path, int64_t steps, bool wal = false) {
  Recording db(path, wal);
  db.Run("train", "closed");
  db.Execute("BEGIN");
  for (int64_t step = 0; step < steps; ++step) {
    db.Step(step, {.loss = 5.0 - 0.01 * static_cast<double>(step)});
  }
  db.Execute("COMMIT");
}

void Change(const std::string& path, const std::string& sql) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(db);
  sqlite3_close(db);
}

std::string Stamp(const TempFolder& folder, const std::string& file) {
  auto roots = AllowedRoots::Create({folder.path()});
  auto source = runs::OpenRun(folder.File(file), *roots, {});
  EXPECT_TRUE(source) << (source ? "" : source.error().Text());
  return source ? runs::StampOfRun(*source) : "";
}

// Longer than what a file that was just changed is distrusted for.
void LetFilesSettle() { std::this_thread::sleep_for(std::chrono::milliseconds(2100)); }

TEST(RememberedTest, KeepsTheLastUsedAndNothingWithoutAKey) {
  runs::Remembered<int> values(2);
  EXPECT_EQ(*values.Keep("", 7), 7);
  EXPECT_FALSE(values.Find(""));
  values.Keep("a", 1);
  values.Keep("b", 2);
  EXPECT_EQ(*values.Find("a"), 1);
  values.Keep("c", 3);  // b was used least
  EXPECT_TRUE(values.Find("a"));
  EXPECT_FALSE(values.Find("b"));
  values.Keep("a", 4);
  EXPECT_EQ(*values.Find("a"), 4);
  EXPECT_EQ(*values.Find("c"), 3);
}

// Every way in which a file can come to hold something else, with what it then says.
struct Case {
  std::function<void(const TempFolder&, const std::string&)> change;
  int64_t steps;
  double last_loss;
};

const std::map<std::string, Case>& Cases() {
  static const std::map<std::string, Case> cases = {
      {"grown.db",
       {[](const TempFolder& folder, const std::string& file) {
          Change(folder.File(file), "INSERT INTO step (run_id,step,loss) VALUES (1,300,1.5)");
        },
        201, 1.5}},
      {"rewritten.db",  // same size; with the times that it had before
       {[](const TempFolder& folder, const std::string& file) {
          const std::string path = folder.File(file);
          const auto time = fs::last_write_time(path);
          const auto size = fs::file_size(path);
          Change(path, "UPDATE step SET loss=2.25 WHERE step=199");
          EXPECT_EQ(fs::file_size(path), size);
          fs::last_write_time(path, time);
        },
        200, 2.25}},
      {"cut.db",
       {[](const TempFolder& folder, const std::string& file) {
          Change(folder.File(file), "DELETE FROM step WHERE step>99; VACUUM");
        },
        100, 5.0 - 0.99}},
      {"replaced.db",
       {[](const TempFolder& folder, const std::string& file) {
          RecordLosses(folder.File("other"), 150);
          fs::rename(folder.File("other"), folder.File(file));
        },
        150, 5.0 - 1.49}},
      {"filled_in.db",  // as a later process brings in what a flight recorder held
       {[](const TempFolder& folder, const std::string& file) {
          Change(folder.File(file), "INSERT INTO step (run_id,step,loss) VALUES (1,-1,9)");
        },
        201, 5.0 - 1.99}},
      {"recorder.db",  // its ring comes to lie beside it; the database is not touched
       {[](const TempFolder& folder, const std::string& file) {
          RingFile ring(folder.File(file), 1, 1.7e9);
          ring.Step(200, 0.5);
          ring.Write();
        },
        201, 0.5}},
  };
  return cases;
}

TEST(RememberedTest, AFileThatChangedIsReadAnew) {
  TempFolder folder;
  for (const auto& [file, one] : Cases()) RecordLosses(folder.File(file), 200);
  LetFilesSettle();
  std::map<std::string, std::string> before;
  const auto expect = [&](const std::string& file, int64_t steps, double last_loss) {
    auto summary = Call("run_summary", {{"run", file}}, folder.path());
    auto listed = Call("list_runs", {{"path", file}}, folder.path());
    auto diagnosed = Call("diagnose_run", {{"run", file}}, folder.path());
    ASSERT_TRUE(summary && listed && diagnosed) << file;
    EXPECT_EQ(summary->structured["steps"], steps) << file;
    EXPECT_DOUBLE_EQ(summary->structured["loss"]["last"].get<double>(), last_loss) << file;
    EXPECT_EQ(listed->structured["runs"][0]["steps"], steps) << file;
    EXPECT_EQ(diagnosed->structured["verdict"], "healthy") << file;
  };
  for (const auto& [file, one] : Cases()) {
    for (int time = 0; time < 2; ++time) expect(file, 200, 5.0 - 1.99);
    before[file] = Stamp(folder, file);
    EXPECT_FALSE(before[file].empty()) << file;
    EXPECT_EQ(Stamp(folder, file), before[file]) << file;
  }
  for (const auto& [file, one] : Cases()) {
    one.change(folder, file);
    // Changed just now, a file may be changed again without a trace. Asked at once: a slow machine
    // may answer the questions below after the file has settled.
    if (file != "recorder.db") EXPECT_EQ(Stamp(folder, file), "") << file;
    expect(file, one.steps, one.last_loss);
  }
  LetFilesSettle();
  for (const auto& [file, one] : Cases()) {
    for (int time = 0; time < 2; ++time) expect(file, one.steps, one.last_loss);
    EXPECT_FALSE(Stamp(folder, file).empty()) << file;
    EXPECT_NE(Stamp(folder, file), before[file]) << file;
  }
}

TEST(RememberedTest, ARunOfManyRanksByAllItsFilesAndOneThatIsWrittenNotAtAll) {
  TempFolder folder;
  for (const char* rank : {"0", "1"}) {
    const std::string path = folder.File("metrics.rank" + std::string(rank) + ".db");
    RecordLosses(path, 50);
    Change(path, "UPDATE run SET world_size=2, rank=" + std::string(rank));
  }
  Recording live(folder.File("live.db"), /*wal=*/true);
  live.Run("live", "");
  live.Step(0, {.loss = 1.0});
  LetFilesSettle();
  EXPECT_EQ(Stamp(folder, "live.db"), "");
  const std::string both = Stamp(folder, "metrics.rank0.db");
  const std::string one = Stamp(folder, "metrics.rank1.db");
  EXPECT_FALSE(both.empty());
  EXPECT_FALSE(one.empty());
  EXPECT_NE(both, one);
  fs::permissions(folder.File("metrics.rank1.db"), fs::perms::owner_all);  // is a change
  EXPECT_EQ(Stamp(folder, "metrics.rank0.db"), "");
  for (int64_t step = 1; step < 4; ++step) {
    live.Step(step, {.loss = 1.0});
    auto summary = Call("run_summary", {{"run", "live.db"}}, folder.path());
    ASSERT_TRUE(summary);
    EXPECT_EQ(summary->structured["steps"], step + 1);
  }
}

}  // namespace
}  // namespace mpnanny::test
