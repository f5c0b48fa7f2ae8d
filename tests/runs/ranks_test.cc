// Distributed runs: one database a rank, merged on reading.
#include "engines/runs/ranks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>

#include "tests/runs/recording.h"

namespace mpnanny::test {
namespace fs = std::filesystem;
namespace {

Json MustAnswer(const std::string& tool, const Json& arguments, const TempFolder& folder) {
  auto output = Call(tool, arguments, folder.path());
  EXPECT_TRUE(output) << (output ? "" : output.error().Text());
  return output ? output->structured : Json::object();
}

bool AnyHolds(const Json& texts, const std::string& part) {
  for (const Json& text : texts) {
    if (text.get<std::string>().find(part) != std::string::npos) return true;
  }
  return false;
}

struct RankSpec {
  int64_t rank = 0, world_size = 4;
  std::optional<int64_t> nan_at = {};  // this rank's own loss
  int64_t all_nan_from = 1000;         // what the others' gradients make of it
  double started_at = 1.7e9;
  std::string ended = "exception";
  std::string name = "train";
  bool shuffled_layers = false;  // layer ids differ from those of other ranks
};

// 30 steps; step 5 is skipped on all ranks; loss is 1 + rank.
void WriteRank(const std::string& path, const RankSpec& spec) {
  Recording db(path);
  db.Run(spec.name, spec.ended, "fp16", spec.started_at + 0.1 * static_cast<double>(spec.rank));
  db.Execute("UPDATE run SET rank=" + std::to_string(spec.rank) + ", world_size=" +
             std::to_string(spec.world_size) + " WHERE run_id=" + std::to_string(db.run()));
  if (spec.shuffled_layers) db.Layer("first.only.here");
  const int64_t ffn = db.Layer("blocks.0.ffn.wo", "model.py:62");
  db.Layer("head", "model.py:90");
  for (int64_t step = 0; step < 30; ++step) {
    const bool bad = step == spec.nan_at || step >= spec.all_nan_from;
    db.Step(step, {.loss = bad ? kNan : 1.0 + static_cast<double>(spec.rank),
                   .scale = step < 5 ? 1024.0 : 512.0,
                   .grad_norm = 1.0 + static_cast<double>(spec.rank),
                   .flags = step == 5 ? 4u | 8u | 16u : 0u});
    if (step % 10 == 0) db.Stat(step, ffn, {.absmax = 100.0 + static_cast<double>(spec.rank)});
  }
  db.Alert(5, {.type = "UNDERFLOW", .severity = "WARNING", .layer = ffn, .kind = 1});
  if (spec.nan_at) {
    db.Alert(*spec.nan_at, {.type = "INF", .layer = ffn, .kind = 1, .producer = 1});
    db.Alert(*spec.nan_at, {.type = "LOSS_NAN", .phase = "loss"});
  }
  if (spec.all_nan_from < 1000) {
    db.Alert(spec.all_nan_from, {.type = "LOSS_NAN", .phase = "loss"});
  }
}

// Four ranks; rank 2 breaks at step 20 and takes the others with it at 21.
void BrokenRanks(const TempFolder& folder, int64_t leave_out = -1) {
  for (int64_t rank = 0; rank < 4; ++rank) {
    if (rank == leave_out) continue;
    WriteRank(folder.File("logs/metrics.rank" + std::to_string(rank) + ".db"),
              {.rank = rank,
               .nan_at = rank == 2 ? std::optional<int64_t>(20) : std::nullopt,
               .all_nan_from = 21,
               .shuffled_layers = rank == 2});
  }
}

TEST(RanksTest, ListedAsOneRun) {
  TempFolder folder;
  BrokenRanks(folder);
  const Json listed = MustAnswer("list_runs", {{"path", "."}}, folder);
  EXPECT_EQ(listed["total"], 1);
  EXPECT_EQ(listed["databases"], 4);
  const Json& run = listed["runs"][0];
  EXPECT_EQ(run["run"], folder.File("logs/metrics.rank0.db") + "#1");
  EXPECT_EQ(run["ranks"], 4);
  EXPECT_EQ(run["world_size"], 4);
  EXPECT_EQ(run["steps"], 30);
  EXPECT_EQ(run["last_loss"], "nan");
  EXPECT_EQ(run["worst_alert"], "ERROR INF");
  EXPECT_EQ(run["worst_rank"], 2);
}

TEST(RanksTest, SummaryIsOverAllRanks) {
  TempFolder folder;
  BrokenRanks(folder);
  for (const char* handle : {"logs/metrics.rank0.db", "logs/metrics.rank0.db#1", "logs", "."}) {
    const Json s = MustAnswer("run_summary", {{"run", handle}}, folder);
    EXPECT_EQ(s["run"], folder.File("logs/metrics.rank0.db") + "#1") << handle;
    EXPECT_EQ(s["steps"], 30);
    EXPECT_EQ(s["skipped_steps"], 1);
    EXPECT_EQ(s["loss"]["first"], 2.5);  // the mean of 1, 2, 3, 4
    EXPECT_EQ(s["loss_scale"]["falls"], 1);
    EXPECT_EQ(s["nonfinite_losses"], 10);
    EXPECT_TRUE(AnyHolds(s["reasons"], "first at step 20 on rank 2")) << s["reasons"];
    EXPECT_TRUE(AnyHolds(s["notes"], "Merged from all 4 ranks")) << s["notes"];
    for (const Json& group : s["alerts"]) {
      if (group["type"] == "UNDERFLOW") {
        EXPECT_EQ(group["count"], 1) << "counted once a rank";
        EXPECT_EQ(group["layers"], Json::array({"blocks.0.ffn.wo"}));
      }
    }
  }
}

TEST(RanksTest, AlertsTellTheirRanksOnceEach) {
  TempFolder folder;
  BrokenRanks(folder);
  const Json all = MustAnswer("query_alerts", {{"run", "logs/metrics.rank0.db"}}, folder);
  EXPECT_EQ(all["total"], 4);
  const Json& alerts = all["alerts"];
  EXPECT_EQ(alerts[0]["ranks"], (Json{0, 1, 2, 3}));
  EXPECT_EQ(alerts[1]["type"], "INF");
  EXPECT_EQ(alerts[1]["layer"], "blocks.0.ffn.wo");
  EXPECT_EQ(alerts[1]["ranks"], Json::array({2}));
  EXPECT_EQ(alerts[3]["step"], 21);
  EXPECT_EQ(alerts[3]["rank_count"], 4);
  EXPECT_EQ(MustAnswer("query_alerts", {{"run", "logs"}, {"layer", {"*.wo"}}}, folder)["total"], 2);
  // The pages together are the whole, each alert once.
  std::string cursor;
  int seen = 0;
  do {
    Json arguments = {{"run", "logs"}};
    if (!cursor.empty()) arguments["cursor"] = cursor;
    auto page = Call("query_alerts", arguments, folder.path(), 2400);
    ASSERT_TRUE(page) << page.error().Text();
    seen += static_cast<int>(page->structured["alerts"].size());
    cursor = page->structured.value("next_cursor", "");
    ASSERT_LE(seen, 4);
  } while (!cursor.empty());
  EXPECT_EQ(seen, 4);
}

TEST(RanksTest, DiagnosisNamesTheRankThatBrokeFirst) {
  TempFolder folder;
  BrokenRanks(folder);
  const Json d = MustAnswer("diagnose_run", {{"run", "logs"}}, folder);
  EXPECT_EQ(d["verdict"], "broken");
  EXPECT_EQ(d["first_bad"]["step"], 20);
  EXPECT_EQ(d["first_bad"]["layer"], "blocks.0.ffn.wo");
  EXPECT_EQ(d["first_bad"]["ranks"], Json::array({2}));
  EXPECT_EQ(d["first_bad"]["source"], "model.py:62");
  // One rank asked for: rank 0 knows of nothing before step 21.
  const Json one = MustAnswer("diagnose_run", {{"run", "logs"}, {"rank", 0}}, folder);
  EXPECT_EQ(one["first_bad"]["step"], 21);
  EXPECT_FALSE(one["first_bad"].contains("ranks"));
}

TEST(RanksTest, OneRankIsAskedForByHandleOrNumber) {
  TempFolder folder;
  BrokenRanks(folder);
  const Json by_file = MustAnswer("run_summary", {{"run", "logs/metrics.rank3.db"}}, folder);
  EXPECT_EQ(by_file["loss"]["first"], 4);
  EXPECT_TRUE(AnyHolds(by_file["notes"], "rank 3 of 4 alone"));
  EXPECT_TRUE(AnyHolds(by_file["notes"], "metrics.rank0.db#1 means all ranks"));
  const Json by_number = MustAnswer("run_summary", {{"run", "logs"}, {"rank", 3}}, folder);
  EXPECT_EQ(by_number["loss"], by_file["loss"]);
  EXPECT_EQ(by_number["run"], folder.File("logs/metrics.rank3.db") + "#1");
  auto miss = Call("run_summary", {{"run", "logs"}, {"rank", 9}}, folder.path());
  ASSERT_FALSE(miss);
  EXPECT_NE(miss.error().Text().find("all 4 ranks of 4"), std::string::npos) << miss.error().Text();
  WriteRank(folder.File("single.db"), {.world_size = 1});
  EXPECT_FALSE(Call("run_summary", {{"run", "single.db"}, {"rank", 1}}, folder.path()));
  EXPECT_TRUE(Call("run_summary", {{"run", "single.db"}, {"rank", 0}}, folder.path()));
}

TEST(RanksTest, MissingAndDamagedRanksAreTold) {
  TempFolder folder;
  BrokenRanks(folder, /*leave_out=*/0);
  const Json listed = MustAnswer("list_runs", {{"path", "."}}, folder)["runs"];
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0]["ranks"], 3);
  // The lowest rank that is here stands for the run.
  const Json s = MustAnswer("run_summary", {{"run", listed[0]["run"]}}, folder);
  EXPECT_EQ(s["loss"]["first"], 3);
  EXPECT_TRUE(AnyHolds(s["notes"], "Rank 0 of 4 is not here")) << s["notes"];

  folder.Write("logs/metrics.rank3.db",
               std::string("SQLite format 3\0", 16) + std::string(4096, 'x'));
  const Json damaged = MustAnswer("run_summary", {{"run", "logs/metrics.rank1.db"}}, folder);
  EXPECT_TRUE(AnyHolds(damaged["notes"], "Ranks 0 and 3 of 4 are not here")) << damaged["notes"];
  EXPECT_TRUE(AnyHolds(damaged["notes"], "metrics.rank3.db")) << damaged["notes"];
}

TEST(RanksTest, RestartedRunsStayApart) {
  TempFolder folder;
  for (int64_t rank = 0; rank < 3; ++rank) {
    const std::string path = folder.File("m.rank" + std::to_string(rank) + ".db");
    for (const double start : {1.7e9, 1.7e9 + 30, 1.7e9 + 5000}) {
      WriteRank(path, {.rank = rank, .world_size = 3, .started_at = start});
    }
  }
  WriteRank(folder.File("other.rank1.db"), {.rank = 1, .world_size = 3});  // of another file
  WriteRank(folder.File("m.rank3.db"), {.rank = 3, .world_size = 8, .name = "other job"});
  const Json listed = MustAnswer("list_runs", {{"path", "."}}, folder);
  EXPECT_EQ(listed["total"], 5);
  int whole = 0;
  for (const Json& run : listed["runs"]) whole += run["ranks"] == 3 ? 1 : 0;
  EXPECT_EQ(whole, 3);
  EXPECT_EQ(listed["runs"][0]["run"], folder.File("m.rank0.db") + "#3");
}

TEST(RanksTest, FoldersOfTheirOwnAndOneFileForAll) {
  TempFolder folder;
  for (int64_t rank = 0; rank < 4; ++rank) {
    WriteRank(folder.File("logs/rank" + std::to_string(rank) + "/metrics.db"), {.rank = rank});
    WriteRank(folder.File("packed.db"), {.rank = rank});
  }
  const Json s = MustAnswer("run_summary", {{"run", "logs/rank0/metrics.db"}}, folder);
  EXPECT_EQ(s["loss"]["first"], 2.5);
  for (const char* handle : {"packed.db", "packed.db#1"}) {
    EXPECT_EQ(MustAnswer("run_summary", {{"run", handle}}, folder)["loss"]["first"], 2.5) << handle;
  }
  EXPECT_EQ(MustAnswer("run_summary", {{"run", "packed.db#3"}}, folder)["loss"]["first"], 3);
  EXPECT_EQ(MustAnswer("list_runs", {{"path", "."}}, folder)["total"], 2);
}

TEST(RanksTest, FlightRecordersOfAllRanksJoin) {
  TempFolder folder;
  for (int64_t rank = 0; rank < 2; ++rank) {
    const std::string path = folder.File("m.rank" + std::to_string(rank) + ".db");
    WriteRank(path, {.rank = rank, .world_size = 2, .ended = ""});
    RingFile ring(path, 1, 1.7e9 + 0.1 * static_cast<double>(rank));
    for (int64_t step = 28; step < 34; ++step) {
      ring.Step(step, step == 33 && rank == 1 ? kNan : 1.0 + static_cast<double>(rank),
                step == 33 && rank == 1 ? 1u : 0u, step == 33 && rank == 1 ? 1 : -1);
    }
    ring.Write();
  }
  const Json s = MustAnswer("run_summary", {{"run", "."}}, folder);
  EXPECT_EQ(s["steps"], 34);
  EXPECT_EQ(s["status"], "killed");
  EXPECT_EQ(s["loss"]["last"], "nan");
  const Json d = MustAnswer("diagnose_run", {{"run", "."}}, folder);
  EXPECT_EQ(d["first_bad"]["step"], 33);
  EXPECT_EQ(d["first_bad"]["ranks"], Json::array({1}));
  EXPECT_EQ(d["first_bad"]["layer"], "blocks.0.ffn.wo");
}

TEST(RanksTest, WordsForRanks) {
  EXPECT_EQ(runs::RanksText({3}, 8), "rank 3");
  EXPECT_EQ(runs::RanksText({0, 2}, 8), "ranks 0 and 2");
  EXPECT_EQ(runs::RanksText({0, 1, 2, 3, 6}, 8), "ranks 0 to 3 and 6");
  EXPECT_EQ(runs::RanksText({0, 1}, 2), "all 2 ranks");
  EXPECT_EQ(runs::MissingRanks({0, 1}, 2), "");
  EXPECT_EQ(runs::RankFamily("/a/logs/metrics.rank12.db"), "/a/logs/metrics.rank*.db");
  EXPECT_EQ(runs::RankFamily("/a/rank1/metrics.db"), "/a/rank*/metrics.db");
  EXPECT_EQ(runs::RankFamily("/a/rank1/metrics.rank1.db"), "/a/rank*/metrics.rank*.db");
  EXPECT_EQ(runs::RankFamily("/a/lora_rank8/metrics.rank1.db"), "/a/lora_rank8/metrics.rank*.db");
  EXPECT_EQ(runs::RankFamily("/a/frank/ranking.db"), "/a/frank/ranking.db");
}

// Under torchrun each rank writes a file of its own; a person types the name that one process has.
TEST(RanksTest, TheNameOfOneProcessFindsTheRanks) {
  TempFolder folder;
  BrokenRanks(folder);
  const Json s = MustAnswer("run_summary", {{"run", "logs/metrics.db"}}, folder);
  EXPECT_EQ(s["run"], folder.File("logs/metrics.rank0.db") + "#1");
  EXPECT_EQ(s["steps"], 30);
  const Json d = MustAnswer("diagnose_run", {{"run", folder.File("logs/metrics.db")}}, folder);
  EXPECT_EQ(d["first_bad"]["step"], 20);
  EXPECT_FALSE(Call("run_summary", {{"run", "logs/other.db"}}, folder.path()));
  // A file of that name is what was asked about; newer ranks beside it are told.
  WriteRank(folder.File("logs/metrics.db"), {.world_size = 1, .name = "before"});
  std::filesystem::last_write_time(
      folder.File("logs/metrics.db"),
      std::filesystem::last_write_time(folder.File("logs/metrics.rank0.db")) -
          std::chrono::hours(1));
  const Json before = MustAnswer("run_summary", {{"run", "logs/metrics.db"}}, folder);
  EXPECT_EQ(before["name"], "before");
  EXPECT_TRUE(AnyHolds(before["notes"], "lie beside this file and are newer")) << before["notes"];
}

}  // namespace
}  // namespace mpnanny::test
