// Databases of the earlier Python monitor, read through the tools.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "engines/runs/samples.h"
#include "tests/runs/import_files.h"

namespace mpnanny::test {
namespace {

constexpr char kTables[] =
    "CREATE TABLE layer_stats (id INTEGER PRIMARY KEY AUTOINCREMENT, step INTEGER NOT NULL, phase "
    "TEXT"
    " NOT NULL, layer_name TEXT NOT NULL, layer_type TEXT, dtype TEXT, nan_count INTEGER DEFAULT 0,"
    " inf_count INTEGER DEFAULT 0, max_val REAL, min_nonzero REAL, mean_val REAL, std_val REAL, p1"
    " REAL, p99 REAL, fp16_sat REAL, fp16_udf REAL, ts REAL);"
    "CREATE TABLE alerts (id INTEGER PRIMARY KEY AUTOINCREMENT, step INTEGER NOT NULL, phase TEXT,"
    " layer_name TEXT, alert_type TEXT NOT NULL, severity TEXT NOT NULL, message TEXT, value REAL, "
    "ts"
    " REAL);"
    "CREATE TABLE loss_scale_history (step INTEGER PRIMARY KEY, scale REAL NOT NULL, overflow "
    "INTEGER"
    " DEFAULT 0, ts REAL);"
    "CREATE INDEX idx_stats_step ON layer_stats(step);"
    "CREATE INDEX idx_stats_layer ON layer_stats(layer_name);"
    "CREATE INDEX idx_alerts_step ON alerts(step);"
    "CREATE INDEX idx_alerts_sev ON alerts(severity);";

// 300 steps with a scaler, every tenth sampled: "ffn" grows, overflows at step 250 and the scale
// falls from there on.
class EarlierFile {
 public:
  explicit EarlierFile(const std::string& path, const std::string& tables = kTables) {
    EXPECT_EQ(sqlite3_open(path.c_str(), &db_), SQLITE_OK);
    Run("PRAGMA journal_mode=WAL");
    Run(tables);
  }
  ~EarlierFile() { sqlite3_close(db_); }
  EarlierFile(const EarlierFile&) = delete;
  EarlierFile& operator=(const EarlierFile&) = delete;

  void Run(const std::string& sql) {
    char* error = nullptr;
    EXPECT_EQ(sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK) << error << sql;
    sqlite3_free(error);
  }
  void Fill() {
    Run("BEGIN");
    double scale = 65536;
    for (int step = 0; step < 300; ++step) {
      const bool bad = step >= 250;
      if (bad) scale /= 2;
      Run("INSERT INTO loss_scale_history VALUES (" + std::to_string(step) + "," +
          std::to_string(scale) + "," + (bad ? "1" : "0") + "," + std::to_string(1.6e9 + step) +
          ")");
      if (step % 10 != 0) continue;
      for (const std::string layer : {"embed", "ffn", "head"}) {
        const bool broken = bad && layer != "embed";
        const std::string max = broken           ? "NULL"
                                : layer == "ffn" ? std::to_string(200.0 * step + 1)
                                                 : "3.0";
        for (const std::string phase : {"forward", "backward"}) {
          Run("INSERT INTO layer_stats (step, phase, layer_name, layer_type, dtype, nan_count,"
              " inf_count, max_val, min_nonzero, mean_val, std_val, ts) VALUES (" +
              std::to_string(step) + ",'" + phase + "','" + layer +
              "','Linear','torch.float16',0," + (broken ? "5" : "0") + "," + max + ",0.0," +
              (broken ? "NULL" : "0.1") + "," + (broken ? "NULL" : "1.0") + "," +
              std::to_string(1.6e9 + step) + ")");
        }
        if (broken) {
          Run("INSERT INTO alerts (step, phase, layer_name, alert_type, severity, message, value, "
              "ts)"
              " VALUES (" +
              std::to_string(step) + ",'forward','" + layer + "','INF','ERROR','[forward] " +
              layer + ": 5 Inf',5,1.6e9)");
        }
      }
    }
    Run("COMMIT");
  }

 private:
  sqlite3* db_ = nullptr;
};

TEST(EarlierMonitorTest, EveryToolReadsItsDatabases) {
  TempFolder folder;
  {
    EarlierFile file(folder.File("metrics.db"));
    file.Fill();
  }
  const auto before = std::filesystem::last_write_time(folder.File("metrics.db"));
  const ReadLog log = ReadAsRun(folder, "metrics.db");
  ASSERT_EQ(log.steps.size(), 300u) << log.error;
  EXPECT_EQ(log.steps[100].loss_scale, 65536);
  EXPECT_TRUE(log.steps[100].flags & runs::kSampled);
  EXPECT_FALSE(log.steps[101].flags & runs::kSampled);
  EXPECT_TRUE(log.steps[250].flags & runs::kSkipped);
  EXPECT_EQ(log.precision, "fp16");
  EXPECT_NE(log.notes.find("earlier Python monitor"), std::string::npos) << log.notes;

  auto summary = Call("run_summary", {{"run", "metrics.db"}}, folder.path());
  ASSERT_TRUE(summary) << summary.error().Text();
  EXPECT_EQ(summary->structured["steps"], 300);
  EXPECT_EQ(summary->structured["skipped_steps"], 50);
  EXPECT_EQ(summary->structured["alerts"][0]["type"], "INF");
  EXPECT_EQ(summary->structured["alerts"][0]["layers"], Json({"ffn", "head"}));
  auto alerts = Call("query_alerts", {{"run", "metrics.db#1"}, {"layer", "ffn"}}, folder.path());
  ASSERT_TRUE(alerts) << alerts.error().Text();
  EXPECT_EQ(alerts->structured["total"], 5);
  auto list = Call("list_runs", {{"path", "."}}, folder.path());
  ASSERT_TRUE(list) << list.error().Text();
  EXPECT_EQ(list->structured["total"], 1);
  auto diagnosis = Call("diagnose_run", {{"run", "metrics.db"}}, folder.path());
  ASSERT_TRUE(diagnosis) << diagnosis.error().Text();
  EXPECT_EQ(diagnosis->structured["verdict"], "broken");
  EXPECT_EQ(diagnosis->structured["first_bad"]["step"], 250) << diagnosis->text;
  EXPECT_EQ(diagnosis->structured["first_bad"]["layer"], "ffn") << diagnosis->text;
  EXPECT_EQ(before, std::filesystem::last_write_time(folder.File("metrics.db")));
}

TEST(EarlierMonitorTest, LiveFilesOrdersOfColumnsAndRepeatedCalls) {
  TempFolder folder;
  // Its fork: another order, one column more, no scale; the writer still holds the file open.
  EarlierFile live(
      folder.File("live.db"),
      "CREATE TABLE layer_stats (id INTEGER PRIMARY KEY, exact_zero_ratio REAL, ts REAL,"
      " max_val REAL, dtype TEXT, layer_name TEXT, phase TEXT, step INTEGER, inf_count"
      " INTEGER, nan_count INTEGER);"
      "CREATE TABLE alerts (step INTEGER, alert_type TEXT, severity TEXT);"
      "CREATE VIEW step AS SELECT 1; CREATE TABLE tensor_stats (x);");
  live.Run(
      "INSERT INTO layer_stats (step, phase, layer_name, dtype, max_val, nan_count, inf_count) "
      "VALUES"
      " (5,'forward','a','torch.bfloat16',1.5,0,0),(5,'forward','a','torch.bfloat16',2.5,0,0),"
      " (5,'optimizer_grad','w','torch.float32',0.5,2,0)");
  const auto roots = AllowedRoots::Create({folder.path()});
  auto source = runs::OpenRun("live.db", *roots, {});
  ASSERT_TRUE(source) << source.error().Text();
  auto rows = runs::ReadSample(*source, 5);
  ASSERT_TRUE(rows) << rows.error().Text();
  ASSERT_EQ(rows->size(), 3u);
  EXPECT_EQ((*rows)[0].slot, 0);
  EXPECT_EQ((*rows)[0].absmax, 1.5);
  EXPECT_EQ((*rows)[1].slot, 1);
  EXPECT_EQ((*rows)[1].absmax, 2.5);
  EXPECT_EQ((*rows)[2].kind, runs::kGradient);
  EXPECT_EQ((*rows)[2].nan, 2);
  auto names = runs::ReadDtypeNames(*source);
  ASSERT_TRUE(names);
  EXPECT_EQ((*names)[*(*rows)[0].dtype], "bfloat16");
  const ReadLog log = ReadAsRun(folder, "live.db");
  ASSERT_EQ(log.steps.size(), 1u);
  EXPECT_EQ(log.steps[0].step, 5);
  EXPECT_TRUE(Call("diagnose_run", {{"run", "live.db"}}, folder.path()));
}

TEST(EarlierMonitorTest, DamagedFilesAreTold) {
  TempFolder folder;
  {
    EarlierFile file(folder.File("whole.db"));
    file.Fill();
  }
  std::ifstream in(folder.File("whole.db"), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  for (size_t size = 200; size < whole.size(); size += whole.size() / 17) {
    folder.Write("cut.db", whole.substr(0, size));
    (void)Call("run_summary", {{"run", "cut.db"}}, folder.path());
    (void)Call("diagnose_run", {{"run", "cut.db"}}, folder.path());
  }
}

}  // namespace
}  // namespace mpnanny::test
