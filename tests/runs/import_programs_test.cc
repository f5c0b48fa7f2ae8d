// Logs of programs that train by reinforcement, and databases and traces of others, as their
// writers make them.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cmath>

#include "engines/runs/named_figures.h"
#include "tests/runs/import_files.h"

namespace mpnanny::test {
namespace {

using runs::FigureSeries;

FigureSeries Named(const TempFolder& folder, const std::string& handle, std::string_view name) {
  const auto roots = AllowedRoots::Create({folder.path()});
  auto source = runs::OpenRun(handle, *roots, {});
  EXPECT_TRUE(source) << (source ? "" : source.error().Text());
  if (!source) return {};
  auto series = runs::ReadFigure(*source, name);
  EXPECT_TRUE(series);
  return series ? *std::move(series) : FigureSeries();
}

// --- lines ---------------------------------------------------------------------------------------

constexpr char kVerl[] =
    "(TaskRunner pid=1207) step:1 - global_seqlen/min:5000 - actor/entropy:0.35 - "
    "actor/pg_loss:np.float64(0.0125) - actor/grad_norm:0.5 - actor/lr:1e-06 - "
    "rollout_corr/kl:0.001 - training/global_step:1 - val-core/gsm8k/reward/mean@1:0.25\n"
    "(TaskRunner pid=1207) step:2 - global_seqlen/min:5000 - actor/entropy:0.25 - "
    "actor/pg_loss:np.float64(-0.0125) - actor/grad_norm:np.float64(nan) - actor/lr:1e-06 - "
    "rollout_corr/kl:0.002 - training/global_step:2\n";

TEST(ImportProgramsTest, VerlsLines) {
  TempFolder folder;
  folder.Write("a.log", kVerl);
  const ReadLog log = ReadAsRun(folder, "a.log");
  ASSERT_EQ(log.steps.size(), 2u) << log.error;
  EXPECT_EQ(log.steps[0].step, 1);
  EXPECT_EQ(log.steps[0].loss, 0.0125);
  EXPECT_EQ(log.steps[1].loss, -0.0125);
  EXPECT_TRUE(std::isnan(*log.steps[1].grad_norm));
  EXPECT_EQ(Named(folder, "a.log", "rollout_corr/kl"), (FigureSeries{{1, 0.001}, {2, 0.002}}));
  EXPECT_EQ(Named(folder, "a.log", "val-core/gsm8k/reward/mean@1"), (FigureSeries{{1, 0.25}}));
  EXPECT_TRUE(Named(folder, "a.log", "TaskRunner pid").empty());
}

TEST(ImportProgramsTest, VerlsFileLogger) {
  TempFolder folder;
  folder.Write("a.jsonl",
               "{\"step\":1,\"data\":{\"actor/pg_loss\":0.5,\"rollout_corr/kl\":0.25}}\n"
               "{\"step\":2,\"data\":{\"actor/pg_loss\":0.25,\"rollout_corr/kl\":null}}\n");
  const ReadLog log = ReadAsRun(folder, "a.jsonl");
  ASSERT_EQ(log.steps.size(), 2u) << log.error;
  EXPECT_EQ(log.steps[1].loss, 0.25);
  EXPECT_EQ(Named(folder, "a.jsonl", "data/rollout_corr/kl"), (FigureSeries{{1, 0.25}}));
}

TEST(ImportProgramsTest, SlimesLinesCountStepsAndRollouts) {
  const std::string prefix = "[2026-08-01 10:00:02] model.py:918 - ";
  TempFolder folder;
  folder.Write("a.log",
               prefix + "perf 0: {'perf/rollout_time': 33.5}\n" + prefix +
                   "rollout 0: {'rollout/log_probs': -0.25, 'rollout/rewards': 0.5}\n" + prefix +
                   "step 0: {'train/loss': 0.5, 'train/train_rollout_logprob_abs_diff': 0.0125, "
                   "'train/grad_norm': 0.75, 'train/lr-pg_0': 1e-06, 'train/step': 0}\n" +
                   prefix +
                   "step 1: {'train/loss': 0.25, 'train/train_rollout_logprob_abs_diff': 0.25, "
                   "'train/grad_norm': 0.5, 'train/lr-pg_0': 1e-06, 'train/step': 1}\n" +
                   prefix +
                   "critic-step 1: {'train/critic-loss': 7.5, 'train/critic-grad_norm': 9.5}\n" +
                   prefix + "rollout 1: {'rollout/log_probs': -0.125, 'rollout/rewards': 0.75}\n" +
                   prefix + "eval 1: {'eval/aime': 0.25}\n");
  const ReadLog log = ReadAsRun(folder, "a.log");
  ASSERT_EQ(log.steps.size(), 2u) << log.error;
  EXPECT_EQ(log.steps[1].loss, 0.25) << "a critic's loss is a part of the step's";
  EXPECT_EQ(log.steps[1].grad_norm, 0.5);
  EXPECT_EQ(Named(folder, "a.log", "rollout/rewards"), (FigureSeries{{0, 0.5}, {1, 0.75}}));
  EXPECT_EQ(Named(folder, "a.log", "train/train_rollout_logprob_abs_diff"),
            (FigureSeries{{0, 0.0125}, {1, 0.25}}));
  EXPECT_EQ(Named(folder, "a.log", "eval/aime"), (FigureSeries{{1, 0.25}}));
  EXPECT_EQ(Named(folder, "a.log", "train/critic-loss"), (FigureSeries{{1, 7.5}}));
}

TEST(ImportProgramsTest, OpenRlhfsBarsAreMicroBatchesOfAStep) {
  std::string text;
  for (int step = 1; step <= 3; ++step) {
    for (int done = 1; done <= 4; ++done) {
      text += "Train epoch [1/1]:  25%|##  | " + std::to_string(done) +
              "/4 [00:10<01:00,  4.5s/it, act_loss=0." + std::to_string(done) +
              "25, reward=0.5, kl=0.001, act_lr=5e-7]\r";
    }
    text += "\n(PPOTrainer pid=7) ✨ Global step " + std::to_string(step) + ": {'policy_loss': 0." +
            std::to_string(step) + "75, 'actor_lr': 5e-07, 'vllm_kl': 0.25, 'reward': 0.5}\n";
  }
  TempFolder folder;
  folder.Write("a.log", text);
  const ReadLog log = ReadAsRun(folder, "a.log");
  ASSERT_EQ(log.steps.size(), 3u) << log.notes;
  EXPECT_EQ(log.steps[1].step, 2);
  EXPECT_EQ(log.steps[1].loss, 0.275);
  EXPECT_EQ(Named(folder, "a.log", "vllm_kl"), (FigureSeries{{1, 0.25}, {2, 0.25}, {3, 0.25}}));
}

TEST(ImportProgramsTest, LlmCsLogAndLinesWithABareNorm) {
  TempFolder folder;
  folder.Write("main.log",
               "s:0 tel:11.0000\ns:0 trl:10.5000 lr:0.000000 norm:15.25\n"
               "s:1 trl:10.2500 lr:0.000100 norm:nan\ns:250 tel:6.7500\n");
  const ReadLog log = ReadAsRun(folder, "main.log");
  ASSERT_EQ(log.steps.size(), 2u) << log.error;
  EXPECT_EQ(log.steps[0].loss, 10.5);
  EXPECT_EQ(log.steps[0].grad_norm, 15.25);
  EXPECT_TRUE(std::isnan(*log.steps[1].grad_norm));
  EXPECT_EQ(log.steps[1].lr, 1e-4);
  EXPECT_NE(log.notes.find(", 2 read)"), std::string::npos) << log.notes;
  folder.Write("b.log",
               "step    10 | loss: 6.500000 | lr 6.0000e-04 | norm: 1.2500 | dt: 100.00ms\n"
               "layer norm: 3.5\n");
  const ReadLog bare = ReadAsRun(folder, "b.log");
  ASSERT_EQ(bare.steps.size(), 1u) << bare.error;
  EXPECT_EQ(bare.steps[0].grad_norm, 1.25);
}

TEST(ImportProgramsTest, TorchtitansConsole) {
  const std::string prefix = "[rank0]:[titan] 2025-09-11 14:08:35,123 - root - INFO - ";
  TempFolder folder;
  folder.Write("a.log", prefix +
                            "\x1b[31mstep:  1  \x1b[32mloss: 12.25000  \x1b[38mgrad_norm:  1.5000  "
                            "\x1b[36mmemory:  4.25GiB(4.49%)  \x1b[34mtps: 1,234  mfu: 3.50%\n" +
                            prefix + "step:  2  loss: 11.25000  grad_norm:  1.2500  tps: 12,345\n" +
                            prefix + "validate step:  2  loss:  9.5000  tps: 12,345\n");
  const ReadLog log = ReadAsRun(folder, "a.log");
  ASSERT_EQ(log.steps.size(), 2u) << log.error;
  EXPECT_EQ(log.steps[1].loss, 11.25) << "not the validation's";
  EXPECT_NE(log.notes.find(", 1 read)"), std::string::npos) << log.notes;
  EXPECT_EQ(Named(folder, "a.log", "tps"), (FigureSeries{{1, 1234}, {2, 12345}}));
}

// --- torchtitan's traces
// ---------------------------------------------------------------------------

std::string Trace(int rank, int step, const std::string& type, const std::string& name,
                  const std::string& value) {
  return "{\"delta_ms\": 0.5, \"tid\": 7, \"rank\": " + std::to_string(rank) +
         ", \"global_rank\": " + std::to_string(rank) +
         ", \"local_rank\": 0, \"source\": "
         "\"trainer\", \"host_name\": \"h\", \"pid\": 9, \"step\": " +
         std::to_string(step) +
         ", \"relative_step\": 1, \"time\": 1709500000, \"time_ms\": 1709500000123, \"time_us\": "
         "1709500000123456, \"log_type\": \"instant\", \"log_type_name\": \"" +
         type + "\", \"event_name\": " + (name.empty() ? "null" : "\"" + name + "\"") +
         (value.empty() ? "" : ", \"value\": " + value) +
         ", \"caller\": \"trainer.py:796:train_step\", \"seq_id\": 42, \"message\": \"x\"}\n";
}

std::string TraceOfRank(int rank) {
  std::string text = Trace(rank, 1, "training_start", "", "");
  for (int step = 1; step <= 3; ++step) {
    text += Trace(rank, step, "fwd_bwd_start", "", "");
    text += Trace(rank, step, "fwd_bwd_end", "", "12.5");
    text += Trace(rank, step, "metric_value", "train.loss",
                  step == 3 && rank == 1 ? "NaN" : std::to_string(3 - step) + ".5");
  }
  return text;
}

TEST(ImportProgramsTest, TorchtitansTracesOfSeveralRanks) {
  TempFolder folder;
  folder.Write("trainer.global_rank_0.20260801-100000-ABC123.jsonl", TraceOfRank(0));
  folder.Write("trainer.global_rank_1.20260801-100000-DEF456.jsonl", TraceOfRank(1));
  folder.Write("generator.global_rank_0.20260801-100000-XYZ000.jsonl", TraceOfRank(0));
  const ReadLog log = ReadAsRun(folder, ".");
  ASSERT_EQ(log.steps.size(), 3u) << log.error;
  EXPECT_EQ(log.format, "torchtitan structured log");
  EXPECT_EQ(log.steps[0].loss, 2.5);
  EXPECT_EQ(log.steps[0].at, 1709500000.123456);
  EXPECT_TRUE(log.steps[2].flags & runs::kLossNan) << "of rank 1";
  EXPECT_EQ(Named(folder, ".", "fwd_bwd_end").size(), 3u);
  EXPECT_EQ(Named(folder, ".", "train.loss@rank1").size(), 3u);
  const ReadLog alone = ReadAsRun(folder, "trainer.global_rank_0.20260801-100000-ABC123.jsonl");
  EXPECT_EQ(alone.steps.size(), 3u) << alone.error;
}

// --- databases
// -------------------------------------------------------------------------------------

void Execute(const std::string& path, const std::string& sql) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
  char* error = nullptr;
  EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK)
      << (error ? error : "");
  sqlite3_free(error);
  sqlite3_close(database);
}

// As trackio 0.43 makes it: numbers as bytes of JSON, what is not finite as a word.
std::string TrackioSql() {
  std::string sql =
      "PRAGMA page_size=1024; CREATE TABLE metrics (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id "
      "TEXT NOT NULL, timestamp TEXT NOT NULL, run_name TEXT NOT NULL, step INTEGER NOT NULL, "
      "metrics TEXT NOT NULL, log_id TEXT, space_id TEXT);"
      "CREATE TABLE configs (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, run_name "
      "TEXT NOT NULL, config TEXT NOT NULL, created_at TEXT NOT NULL, UNIQUE(run_id));"
      "CREATE TABLE system_metrics (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, "
      "timestamp TEXT NOT NULL, run_name TEXT NOT NULL, metrics TEXT NOT NULL, log_id TEXT);";
  for (const std::string run : {"first", "second"}) {
    for (int step = 0; step < 6; ++step) {
      const bool bad = run == "first" && step == 4;
      sql += "INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) VALUES ('id-" + run +
             "', '2026-11-30T23:25:15.017839+00:00', '" + run + "', " + std::to_string(step * 10) +
             ", CAST('{\"train/loss\":" + (bad ? "\"NaN\"" : "2.5") +
             ",\"train/grad_norm\":1.5,\"reward\":0.25,\"note\":\"x\",\"nested\":{\"kl\":0.5,"
             "\"inf\":\"Infinity\"}}' AS BLOB));";
    }
    sql += "INSERT INTO configs (run_id, run_name, config, created_at) VALUES ('id-" + run +
           "', '" + run + "', CAST('{\"lr\":0.001,\"precision\":\"bf16\"}' AS BLOB), 'x');";
  }
  return sql;
}

TEST(ImportProgramsTest, TrackiosDatabaseHoldsTheRunsOfAProject) {
  TempFolder folder;
  Execute(folder.File("demo.db"), TrackioSql());
  const ReadLog log = ReadAsRun(folder, "demo.db");
  ASSERT_EQ(log.steps.size(), 6u) << log.error;
  EXPECT_EQ(log.format, "trackio database");
  EXPECT_EQ(log.name, "second");
  EXPECT_EQ(log.precision, "bf16");
  EXPECT_EQ(log.runs, 2);
  EXPECT_EQ(log.steps[1].step, 10);
  EXPECT_EQ(log.steps[1].loss, 2.5);
  EXPECT_EQ(log.steps[1].grad_norm, 1.5);
  EXPECT_FALSE(log.steps[4].flags & runs::kLossNan);
  EXPECT_NE(log.notes.find("\"first\" is #2"), std::string::npos) << log.notes;
  const ReadLog first = ReadAsRun(folder, "demo.db#2");
  ASSERT_EQ(first.steps.size(), 6u) << first.error;
  EXPECT_EQ(first.name, "first");
  EXPECT_TRUE(first.steps[4].flags & runs::kLossNan);
  EXPECT_EQ(Named(folder, "demo.db#2", "nested/kl").size(), 6u);
  EXPECT_TRUE(std::isinf(Named(folder, "demo.db", "nested/inf").at(0).second));
}

std::string TrendSql() {
  std::string sql =
      "PRAGMA page_size=1024; CREATE TABLE monitoring_targets (target_id INTEGER PRIMARY KEY "
      "AUTOINCREMENT, target_name TEXT NOT NULL, vpp_stage INTEGER NOT NULL, micro_step INTEGER "
      "NOT NULL DEFAULT 0, UNIQUE(target_name, vpp_stage, micro_step));"
      "CREATE TABLE monitoring_metrics (metric_id INTEGER PRIMARY KEY AUTOINCREMENT, metric_name "
      "TEXT UNIQUE NOT NULL);"
      "CREATE TABLE trend_data (rank INTEGER NOT NULL, step INTEGER NOT NULL, target_id INTEGER "
      "NOT NULL, metric_id INTEGER NOT NULL, norm REAL DEFAULT NULL, max REAL DEFAULT NULL, min "
      "REAL DEFAULT NULL, mean REAL DEFAULT NULL, PRIMARY KEY (rank, step, target_id, metric_id)) "
      "WITHOUT ROWID;"
      "INSERT INTO monitoring_metrics VALUES (1,'actv'),(2,'grad_reduced');"
      "INSERT INTO monitoring_targets VALUES (1,'w',0,0),(2,'v',0,0);";
  const auto row = [&](int rank, int step, int target, int metric, const std::string& norm,
                       const std::string& max) {
    sql += "INSERT INTO trend_data VALUES (" + std::to_string(rank) + "," + std::to_string(step) +
           "," + std::to_string(target) + "," + std::to_string(metric) + "," + norm + "," + max +
           ",-1.0,0.0);";
  };
  for (int step = 0; step < 4; ++step) {
    row(0, step, 1, 2, "3.0", "1.0");
    row(0, step, 2, 2, step == 3 ? "NULL" : "4.0", step == 3 ? "NULL" : "2.0");
    row(0, step, 1, 1, "1.0", step == 2 ? "1000000001.0" : "5.0");
    row(1, step, 1, 2, "300.0", "1.0");
  }
  return sql;
}

TEST(ImportProgramsTest, MsprobesTrendDatabase) {
  TempFolder folder;
  Execute(folder.File("monitor_data.trend.db"), TrendSql());
  const ReadLog log = ReadAsRun(folder, "monitor_data.trend.db");
  ASSERT_EQ(log.steps.size(), 4u) << log.error;
  EXPECT_EQ(log.format, "msProbe trend database");
  EXPECT_EQ(log.steps[0].grad_norm, 5.0) << "of the lowest rank, over its tensors";
  EXPECT_TRUE(std::isnan(*log.steps[3].grad_norm)) << "a NaN is stored as no number";
  EXPECT_EQ(Named(folder, "monitor_data.trend.db", "grad_reduced/max").at(0).second, 2.0);
  EXPECT_TRUE(std::isinf(Named(folder, "monitor_data.trend.db", "actv/max").at(2).second));
}

TEST(ImportProgramsTest, CutAtEveryLengthOrWithWrongBytesTheyEnd) {
  TempFolder folder;
  Execute(folder.File("t.db"), TrackioSql());
  Execute(folder.File("m.db"), TrendSql());
  const auto bytes_of = [&](const std::string& name) {
    std::string bytes;
    FILE* file = std::fopen(folder.File(name).c_str(), "rb");
    char buffer[4096];
    for (size_t got; (got = std::fread(buffer, 1, sizeof buffer, file)) > 0;) {
      bytes.append(buffer, got);
    }
    std::fclose(file);
    return bytes;
  };
  const std::pair<std::string, std::string> kFiles[] = {
      {"a.log", kVerl},
      {"trainer.global_rank_0.a.jsonl", TraceOfRank(0)},
      {"cut.db", bytes_of("t.db")},
      {"cut2.db", bytes_of("m.db")}};
  for (const auto& [name, whole] : kFiles) {
    // Every length of a short file; of a database, whose pages count, every 97th.
    const size_t stride = name.ends_with(".db") ? 97 : 7;
    for (size_t length = 0; length < whole.size(); length += stride) {
      folder.Write(name, whole.substr(0, length));
      ReadAsRun(folder, name);  // an answer or an error in words
    }
    for (size_t at = 0; at < whole.size(); at += stride * 2) {
      std::string wrong = whole;
      wrong[at] = static_cast<char>(wrong[at] ^ 0x5a);
      folder.Write(name, wrong);
      ReadAsRun(folder, name);
    }
  }
}

}  // namespace
}  // namespace mpnanny::test
