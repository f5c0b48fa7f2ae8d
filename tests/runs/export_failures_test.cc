// `mpnanny export` where something is missing, damaged, hostile or full: what can be read is
// written and the rest is told, and no half file is left.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "tests/runs/parquet_files.h"
#include "tests/runs/run_tools.h"

namespace mpnanny::test {
namespace fs = std::filesystem;
namespace {

class ExportFailuresTest : public ParquetTest {
 protected:
  void Fill(const std::string& path, int steps, int64_t rank = 0, int64_t world_size = 1) {
    Recording db(folder_.File(path), false, 3);
    db.Run("training");
    db.Execute("UPDATE run SET rank=" + std::to_string(rank) +
               ", world_size=" + std::to_string(world_size));
    const int64_t layer = db.Layer("fc1");
    db.Execute("BEGIN");
    for (int64_t step = 0; step < steps; ++step) {
      db.Step(step, {.loss = 1.0});
      // Nothing that a file could hold in fewer bytes than these.
      for (int64_t slot = 0; slot < 4; ++slot) {
        db.Stat(step, layer,
                {.slot = slot, .absmax = 1.0 / static_cast<double>(3 + step * 7 + slot * 31)});
      }
    }
    db.Alert(1, {.type = "NAN"});
    db.Execute("COMMIT");
  }
  std::string Count(const std::string& table) {
    return Ask("SELECT count(*) FROM " + Parquet(table)).at(0).at(0);
  }
};

// Sets a variable of the environment for as long as it lives; null takes it away.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* const before = getenv(name)) before_ = before;
    if (value) {
      setenv(name, value, 1);
    } else {
      unsetenv(name);
    }
  }
  ~Variable() {
    if (before_) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
  std::optional<std::string> before_;
};

TEST(ExportWithoutDuckdb, TellsWhatIsMissingAndHowToGetItAndWritesNothing) {
  const TempFolder folder;
  {
    Recording db(folder.File("run.db"));
    db.Run("r");
  }
  const auto roots = AllowedRoots::Unrestricted();
  exports::ExportOptions options = {.runs = {folder.File("run.db")},
                                    .output = folder.File("out"),
                                    .duckdb = folder.File("libduckdb.so")};
  const auto named = exports::Export(options, roots, {});
  ASSERT_FALSE(named);
  EXPECT_EQ(named.error().kind, ErrorKind::kUnavailable);
  EXPECT_NE(named.error().message.find("--duckdb"), std::string::npos) << named.error().Text();
  // A library, but another one.
  options.duckdb = "libm.so.6";
  const auto other = exports::Export(options, roots, {});
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().Text().find("not DuckDB's"), std::string::npos) << other.error().Text();

  options.duckdb = "";
  {
    const Variable elsewhere("MPNANNY_DUCKDB", folder.File("nowhere").c_str());
    const auto variable = exports::Export(options, roots, {});
    ASSERT_FALSE(variable);
    EXPECT_NE(variable.error().message.find("MPNANNY_DUCKDB"), std::string::npos);
  }
  const Variable none("MPNANNY_DUCKDB", nullptr), home("HOME", folder.path().c_str());
  // A system that has it for all its programs finds it.
  if (const auto nowhere = exports::Export(options, roots, {}); !nowhere) {
    EXPECT_EQ(nowhere.error().kind, ErrorKind::kUnavailable);
    EXPECT_NE(nowhere.error().hint.find("npm pack @duckdb/"), std::string::npos);
    EXPECT_NE(nowhere.error().hint.find("~/.local/share/mpnanny"), std::string::npos);
    EXPECT_FALSE(fs::exists(folder.File("out")));
  }
}

TEST_F(ExportFailuresTest, OfADamagedTableTheRowsBeforeTheDamageAreThere) {
  Fill("m.rank0.db", 2000, 0, 2);
  Fill("m.rank1.db", 2000, 1, 2);
  {
    // One page in the middle of the table is overwritten.
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(folder_.File("m.rank1.db").c_str(), &db), SQLITE_OK);
    sqlite3_stmt* page = nullptr;
    ASSERT_EQ(sqlite3_prepare_v2(db,
                                 "SELECT pageno FROM dbstat WHERE name='tensor_stats' AND "
                                 "pagetype='leaf' ORDER BY path LIMIT 1 OFFSET 60",
                                 -1, &page, nullptr),
              SQLITE_OK)
        << sqlite3_errmsg(db);
    ASSERT_EQ(sqlite3_step(page), SQLITE_ROW);
    const int64_t number = sqlite3_column_int64(page, 0);
    sqlite3_finalize(page);
    sqlite3_close(db);
    std::fstream file(folder_.File("m.rank1.db"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp((number - 1) * 4096);
    file << std::string(4096, '\xA5');
  }
  const auto report = Exported({.runs = {"m.rank0.db"}});
  ASSERT_EQ(report.notes.size(), 1u);
  EXPECT_NE(report.notes[0].find("rank 1, tensor_stats: ends after"), std::string::npos)
      << report.notes[0];
  EXPECT_NE(report.notes[0].find("damaged"), std::string::npos) << report.notes[0];
  const Rows rows =
      Ask("SELECT rank, count(*) FROM " + Parquet("tensor_stats") + " GROUP BY rank ORDER BY rank");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0], (std::vector<std::string>{"0", "8000"}));
  const int kept = std::atoi(rows[1][1].c_str());
  EXPECT_GT(kept, 500);
  EXPECT_LT(kept, 8000);
  EXPECT_EQ(Count("step"), "4000") << "other tables are whole";
}

TEST_F(ExportFailuresTest, ARankThatCannotBeReadIsLeftOutAndTold) {
  Fill("m.rank0.db", 10, 0, 3);
  Fill("m.rank1.db", 10, 1, 3);
  Fill("m.rank2.db", 10, 2, 3);
  fs::resize_file(folder_.File("m.rank2.db"), 5000);
  const auto report = Exported({.runs = {"m.rank0.db"}, .tables = {"step"}});
  EXPECT_EQ(report.ranks, 2);
  EXPECT_EQ(Count("step"), "20");
  std::string notes;
  for (const std::string& note : report.notes) notes += note + "\n";
  EXPECT_NE(notes.find("A rank is left out"), std::string::npos) << notes;
  // What is named itself is an error.
  const auto named = Export({.runs = {"m.rank2.db"}, .output = "other"});
  ASSERT_FALSE(named);
  EXPECT_FALSE(fs::exists(folder_.File("other")));
}

TEST_F(ExportFailuresTest, WhatAHostileFileHoldsInPlaceOfATableIsNotRunAndOddValuesAreTold) {
  Fill("run.db", 10);
  {
    Recording db(folder_.File("run.db"), false, 3);
    db.Execute(
        "DROP TABLE shadow_step; CREATE VIEW shadow_step AS SELECT 1 AS run_id, 2 AS step;"
        "DROP TABLE event; CREATE TABLE event (run_id, step, at, type, detail);"
        "INSERT INTO event VALUES (1, 'no number', 3, 'fine', x'41');"
        "INSERT INTO event VALUES (1, 4, 0.5, CAST(x'61FF62C0' AS TEXT), 'as it is')");
  }
  const auto report = Exported({.runs = {"run.db"}});
  EXPECT_EQ(Count("shadow_step"), "0");
  EXPECT_EQ(Ask("SELECT step IS NULL, \"at\", type, detail IS NULL FROM " + Parquet("event") +
                " ORDER BY \"at\" DESC"),
            (Rows{{"true", "3.0", "fine", "true"},
                  {"false", "0.5",
                   "a\xEF\xBF\xBD"
                   "b\xEF\xBF\xBD",
                   "false"}}));
  std::string notes;
  for (const std::string& note : report.notes) notes += note + "\n";
  EXPECT_NE(notes.find("event: 1 texts are not UTF-8"), std::string::npos) << notes;
  EXPECT_NE(notes.find("event: 2 values have another type"), std::string::npos) << notes;
}

TEST_F(ExportFailuresTest, LongTextsAreWholeAndAHugeNameOfALayerStandsOnceOnly) {
  Fill("run.db", 10);
  {
    Recording db(folder_.File("run.db"), false, 3);
    db.Execute(
        "UPDATE layer SET name=printf('%.*c', 3000000, 'x');"
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<20) "
        "INSERT INTO event SELECT 1, i, 0.5, 'long', printf('%.*c', 1000000, 'y') FROM n");
  }
  Exported({.runs = {"run.db"}});
  EXPECT_EQ(
      Ask("SELECT count(*), min(length(detail)), max(length(detail)) FROM " + Parquet("event")),
      (Rows{{"20", "1000000", "1000000"}}));
  EXPECT_EQ(Ask("SELECT count(*), count(layer) FROM " + Parquet("tensor_stats")),
            (Rows{{"40", "0"}}));
  EXPECT_EQ(Ask("SELECT length(name) FROM " + Parquet("layer")), (Rows{{"3000000"}}));
}

TEST_F(ExportFailuresTest, AFolderThatHoldsFilesNeedsForceAndKeepsWhatIsNotATable) {
  Fill("a.db", 10);
  Fill("b.db", 20);
  Exported({.runs = {"a.db"}});
  folder_.Write("out/mine.txt", "precious");
  const auto before = Listed("out");
  const auto refused = Export({.runs = {"b.db"}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidInput);
  EXPECT_NE(refused.error().hint.find("--force"), std::string::npos);
  EXPECT_EQ(Listed("out"), before);
  EXPECT_EQ(Count("step"), "10");
  Exported({.runs = {"b.db"}, .tables = {"step", "run"}, .force = true});
  EXPECT_EQ(Count("step"), "20");
  EXPECT_EQ(Listed("out"), (std::vector<std::string>{"mine.txt", "run.parquet", "step.parquet"}))
      << "tables of the other run are gone";
  EXPECT_EQ(ReadAll(folder_.File("out/mine.txt")), "precious");
  // A file in its place, with or without force.
  const auto file = Export({.runs = {"a.db"}, .output = "b.db", .force = true});
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().kind, ErrorKind::kInvalidInput);
  // An empty folder is fine.
  fs::create_directory(folder_.File("empty"));
  Exported({.runs = {"a.db"}, .output = "empty"});
}

TEST_F(ExportFailuresTest, AFolderThatCannotBeWrittenIsAnErrorAndNothingIsLeft) {
  Fill("run.db", 10);
  folder_.Write("file", "");
  for (const char* output : {"file/out", "file"}) {
    const auto report = Export({.runs = {"run.db"}, .output = output});
    ASSERT_FALSE(report) << output;
    EXPECT_NE(report.error().Text().find("file"), std::string::npos);
  }
}

TEST_F(ExportFailuresTest, AFullDiskIsAnErrorAndLeavesNoHalfFile) {
  if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
      mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    GTEST_SKIP() << "a small disk can be mounted by root only";
  }
  fs::create_directory(folder_.File("disk"));
  if (mount("tmpfs", folder_.File("disk").c_str(), "tmpfs", 0, "size=256k") != 0) {
    GTEST_SKIP() << "a small disk cannot be mounted here";
  }
  Fill("small.db", 5);
  Fill("large.db", 20'000);
  const auto full = Export({.runs = {"large.db"}, .output = "disk/out"});
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().kind, ErrorKind::kUnavailable);
  EXPECT_NE(full.error().message.find("full"), std::string::npos) << full.error().Text();
  EXPECT_EQ(Listed("disk"), std::vector<std::string>());
  // What was there before stays as it was.
  Exported({.runs = {"small.db"}, .output = "disk/out", .tables = {"step", "alert"}});
  const auto before = Listed("disk/out");
  ASSERT_FALSE(Export({.runs = {"large.db"}, .output = "disk/out", .force = true}));
  EXPECT_EQ(Listed("disk/out"), before);
  EXPECT_EQ(Ask("SELECT count(*) FROM " + Parquet("step", "disk/out")), (Rows{{"5"}}));
  umount2(folder_.File("disk").c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace mpnanny::test
