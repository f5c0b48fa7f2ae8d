// Shadow steps in real databases: read, merged, damaged, absent.
#include "engines/runs/shadow.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/files.h"
#include "engines/runs/alerts.h"
#include "tests/runs/recording.h"
#include "tests/runs/shadow_recording.h"

namespace mpnanny::test {
namespace {

runs::Source Opened(const TempFolder& folder, const std::string& name = "m.db") {
  auto roots = AllowedRoots::Create({folder.path()});
  auto source = runs::OpenRun(folder.File(name), *roots, {});
  EXPECT_TRUE(source) << (source ? "" : source.error().Text());
  return *std::move(source);
}

std::vector<runs::ShadowFinding> Findings(const TempFolder& folder,
                                          const runs::ShadowFilter& filter = {}) {
  auto found = runs::ReadShadowFindings(Opened(folder), filter);
  EXPECT_TRUE(found) << (found ? "" : found.error().Text());
  return found ? found->rows : std::vector<runs::ShadowFinding>();
}

TEST(ShadowTest, ADatabaseOfVersionOneHasNone) {
  TempFolder folder;
  {
    Recording db(folder.File("m.db"), false, 1);
    db.Run("old");
    db.Step(0, {.loss = 1.0});
    db.Alert(0, {.type = "NAN"});
  }
  const runs::Source source = Opened(folder);
  auto findings = runs::ReadShadowFindings(source);
  auto steps = runs::ReadShadowSteps(source);
  auto profile = runs::ShadowProfile::Open(source);
  ASSERT_TRUE(findings && steps && profile);
  EXPECT_TRUE(findings->rows.empty() && findings->notes.empty());
  EXPECT_TRUE(steps->steps.empty() && steps->notes.empty() && !steps->seconds);
  EXPECT_FALSE(*profile->StepFrom(0));
  EXPECT_TRUE(profile->At(0)->empty());
  auto row = runs::FindShadowFinding(source, 0, 1);
  ASSERT_TRUE(row);
  EXPECT_FALSE(*row);
  std::vector<runs::AlertRow> alerts;
  ASSERT_TRUE(runs::ForEachAlert(source, {}, [&](const runs::AlertRow& alert) {
    alerts.push_back(alert);
    return true;
  }));
  ASSERT_EQ(alerts.size(), 1u);
  EXPECT_EQ(alerts[0].type, AlertType::kNan);
  EXPECT_EQ(alerts[0].detail, "");
}

TEST(ShadowTest, FindingsComeWorstFirst) {
  TempFolder folder;
  {
    Recording db(folder.File("m.db"));
    db.Run("r");
    AddFinding(db, 1, {.kind = "clipped", .severity = "INFO"});
    AddFinding(db, 2, {.kind = "amplified", .error_out = 0.5});
    AddFinding(db, 3, {.kind = "wobble"});
    AddFinding(db, 4, {.kind = "amplified", .error_out = 9.0});
    AddFinding(db, 5, {.kind = "integers", .error_out = {}});
    AddFinding(db, 6, {.kind = "undefined", .severity = "ERROR"});
    AddFinding(db, 7, {.kind = "range", .severity = "ERROR"});
    AddFinding(db, 8, {.kind = "amplified", .error_out = {}});
  }
  std::vector<int64_t> steps;
  for (const runs::ShadowFinding& finding : Findings(folder)) steps.push_back(finding.step);
  EXPECT_EQ(steps, (std::vector<int64_t>{7, 6, 5, 4, 2, 8, 3, 1}));
}

TEST(ShadowTest, AFindingIsReadWhole) {
  TempFolder folder;
  {
    Recording db(folder.File("m.db"));
    db.Run("r");
    const int64_t layer = db.Layer("block.norm");
    AddFinding(db, 5, {.layer = layer, .share = 0.25, .last_step = 20, .repeats = 3});
    AddFinding(db, 5,
               {.severity = "INFO",
                .phase = "",
                .source = "",
                .dtype = "",
                .shape = "",
                .error_in = {},
                .error_out = {},
                .reach = "",
                .cure = ""});
  }
  const runs::Source source = Opened(folder);
  auto found = runs::ReadShadowFindings(source);
  ASSERT_TRUE(found);
  ASSERT_EQ(found->rows.size(), 2u);
  runs::ShadowFinding& f = found->rows[0];
  ASSERT_TRUE(runs::CompleteFinding(source, f));
  EXPECT_EQ(f.op, "aten.sub.Tensor");
  EXPECT_EQ(f.source, "train.py:40");
  EXPECT_EQ(f.layer_id, 1);
  EXPECT_EQ(f.share, 0.25);
  EXPECT_EQ(f.error_out, 3.1);
  EXPECT_EQ(f.last_step, 20);
  EXPECT_EQ(f.repeats, 3);
  ASSERT_EQ(f.reach.size(), 1u);
  EXPECT_EQ(f.reach[0].what, "loss");
  EXPECT_EQ(f.reach[0].name, "");
  ASSERT_TRUE(f.cure);
  EXPECT_EQ(f.cure->lines.size(), 3u);
  EXPECT_EQ(f.cure->what, "float32");
  EXPECT_EQ(f.cure->error_after, 0.0001);
  runs::ShadowFinding& nulls = found->rows[1];
  ASSERT_TRUE(runs::CompleteFinding(source, nulls));
  EXPECT_TRUE(nulls.phase.empty());
  EXPECT_EQ(nulls.source + nulls.dtype + nulls.shape, "");
  EXPECT_FALSE(nulls.error_in || nulls.error_out || nulls.share || nulls.layer_id || nulls.cure);
  EXPECT_TRUE(nulls.reach.empty());
}

TEST(ShadowTest, StepsAndLayersFilter) {
  TempFolder folder;
  {
    Recording db(folder.File("m.db"));
    db.Run("r");
    AddFinding(db, 10, {.layer = db.Layer("a"), .last_step = 30, .repeats = 3});
    AddFinding(db, 40, {.layer = db.Layer("b")});
    AddFinding(db, 40, {.op = "aten.exp.default"});
  }
  EXPECT_EQ(Findings(folder, {{20, 25}, {}}).size(), 1u);
  EXPECT_EQ(Findings(folder, {{31, 39}, {}}).size(), 0u);
  EXPECT_EQ(Findings(folder, {{0, 9}, {}}).size(), 0u);
  EXPECT_EQ(Findings(folder, {{30, 40}, {}}).size(), 3u);
  EXPECT_EQ(Findings(folder, {{}, std::vector<int64_t>{2}}).size(), 1u);
}

TEST(ShadowTest, StepsAddUpAndMeasureTheFirstOnesAgainstLaterPlainSteps) {
  TempFolder folder;
  {
    Recording db(folder.File("m.db"));
    db.Run("r");
    AddShadowStep(db, 0, 0.5, {});
    AddShadowStep(db, 10, 0.6, 0.1);
    AddShadowStep(db, 20, {}, 0.1);
    AddShadowStep(db, 30, 0.05, 0.1);  // quicker than a plain one
  }
  auto steps = runs::ReadShadowSteps(Opened(folder));
  ASSERT_TRUE(steps);
  ASSERT_EQ(steps->steps.size(), 4u);
  EXPECT_EQ(steps->steps[0].why, "schedule");
  EXPECT_EQ(steps->steps[0].compared, 150);
  EXPECT_NEAR(*steps->seconds, 1.15, 1e-9);
  EXPECT_NEAR(*steps->extra_seconds, 0.4 + 0.5, 1e-9);
  EXPECT_EQ(runs::ReadShadowSteps(Opened(folder), {5, 20})->steps.size(), 2u);
}

// Every column of another type, JSON that is none, columns and tables that are gone.
TEST(ShadowTest, DamagedColumnsReadAsAbsent) {
  TempFolder folder;
  {
    Recording db(folder.File("m.db"));
    db.Run("r");
    db.Execute(
        "DROP TABLE shadow_finding; DROP TABLE shadow_step; DROP TABLE shadow_profile;CREATE TABLE "
        "shadow_finding (finding_id INTEGER PRIMARY KEY, run_id, step, kind, severity, operator, "
        "error_out, share, reach, cure, layer_id, precision);INSERT INTO shadow_finding "
        "VALUES(1,1,4,'amplified','ERROR','aten.sub.Tensor','much',x'00','[{\"what\":7},3,{"
        "\"what\":\"loss\",\"error\":\"x\"}]','{\"lines\":3,\"operators\":[1,\"o\"],\"error_"
        "after\":[]}','no','proven'),(2,1,NULL,x'ff',NULL,NULL,9e999,NULL,'[[[','nonsense',99,12);"
        "CREATE "
        "TABLE shadow_step (run_id, step, seconds);INSERT INTO shadow_step VALUES "
        "(1,3,'long'),(1,5,0.25);CREATE TABLE shadow_profile (run_id, step, layer_id, "
        "error);INSERT INTO shadow_profile VALUES (1,3,'x',0.5),(1,3,1,'y')");
  }
  const runs::Source source = Opened(folder);
  auto found = runs::ReadShadowFindings(source);
  ASSERT_TRUE(found) << found.error().Text();
  ASSERT_GE(found->rows.size(), 1u);
  for (runs::ShadowFinding& finding : found->rows) {
    ASSERT_TRUE(runs::CompleteFinding(source, finding));
  }
  const runs::ShadowFinding& f = found->rows[0];
  EXPECT_EQ(f.op, "aten.sub.Tensor");
  EXPECT_FALSE(f.error_out || f.share || f.layer_id);
  ASSERT_EQ(f.reach.size(), 2u);
  EXPECT_EQ(f.reach[0].what, "");
  EXPECT_EQ(f.reach[1].what, "loss");
  EXPECT_FALSE(f.reach[1].error);
  ASSERT_TRUE(f.cure);
  EXPECT_TRUE(f.cure->lines.empty());
  EXPECT_EQ(f.cure->operators, std::vector<std::string>{"o"});
  auto steps = runs::ReadShadowSteps(source);
  ASSERT_TRUE(steps);
  EXPECT_EQ(steps->steps.size(), 2u);
  EXPECT_EQ(steps->seconds, 0.25);
  EXPECT_FALSE(steps->extra_seconds);
  auto profile = runs::ShadowProfile::Open(source);
  ASSERT_TRUE(profile);
  EXPECT_EQ(*profile->StepFrom(0), 3);
  auto rows = profile->At(3);
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[0].error, 0.5);
  EXPECT_FALSE((*rows)[1].error || (*rows)[1].fp16);
  for (const Json& arguments : {Json{{"run", "m.db"}, {"metric", "findings"}},
                                Json{{"run", "m.db"}, {"metric", "shadow_error"}}}) {
    auto output = Call("query_stats", arguments, folder.path());
    EXPECT_TRUE(output) << (output ? "" : output.error().Text());
  }
  EXPECT_TRUE(Call("run_summary", {{"run", "m.db"}}, folder.path()));
}

TEST(ShadowTest, AViewInPlaceOfATableIsNoData) {
  TempFolder folder;
  {
    Recording db(folder.File("m.db"));
    db.Run("r");
    db.Step(0, {.loss = 1.0});
    db.Execute(
        "DROP TABLE shadow_finding; CREATE VIEW shadow_finding AS SELECT 1 AS finding_id,"
        " 1 AS run_id, 1 AS step, 'range' AS kind");
  }
  EXPECT_TRUE(Findings(folder).empty());
  EXPECT_TRUE(Call("run_summary", {{"run", "m.db"}}, folder.path()));
}

void WriteShadowRank(const TempFolder& folder, int64_t rank) {
  Recording db(folder.File("m.rank" + std::to_string(rank) + ".db"));
  db.Run("train");
  db.Execute("UPDATE run SET rank=" + std::to_string(rank) + ", world_size=2");
  if (rank == 1) db.Layer("only.on.rank.1");
  const int64_t norm = db.Layer("block.norm");
  db.Step(0, {.loss = 1.0});
  AddShadowStep(db, 0, rank == 0 ? 0.4 : 0.6, 0.1);
  AddShadowStep(db, rank == 0 ? 10 : 20, 0.5, 0.1);
  AddProfile(db, 0, norm, 0, rank == 0 ? 0.01 : 0.5, 0.001);
  const FindingSpec sub{.layer = norm, .error_out = rank == 0 ? 2.0 : 8.0};
  const FindingSpec exp{.layer = norm, .op = "aten.exp.default", .source = "train.py:50"};
  if (rank == 1) {
    const FindingSpec own{.kind = "range", .severity = "ERROR", .layer = 1};
    AddShadowAlert(db, 10, own, AddFinding(db, 10, own));
  }
  AddShadowAlert(db, 0, sub, AddFinding(db, 0, sub));
  AddShadowAlert(db, 0, exp, AddFinding(db, 0, exp));
}

TEST(ShadowTest, RanksThatToldAlikeAreOneFinding) {
  TempFolder folder;
  WriteShadowRank(folder, 0);
  WriteShadowRank(folder, 1);
  const runs::Source source = Opened(folder, "m.rank0.db");
  ASSERT_EQ(source.others.size(), 1u);
  auto found = runs::ReadShadowFindings(source);
  ASSERT_TRUE(found);
  ASSERT_EQ(found->rows.size(), 3u);
  EXPECT_EQ(found->rows[0].kind, FindingKind::kRange);
  EXPECT_EQ(found->rows[0].ranks, std::vector<int64_t>{1});
  const runs::ShadowFinding& sub = found->rows[1];
  EXPECT_EQ(sub.op, "aten.sub.Tensor");
  EXPECT_EQ(sub.ranks, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(sub.error_out, 8.0) << "the worse one's figures";
  EXPECT_EQ(found->rows[2].ranks, (std::vector<int64_t>{0, 1}));

  auto steps = runs::ReadShadowSteps(source);
  ASSERT_TRUE(steps);
  ASSERT_EQ(steps->steps.size(), 3u);
  EXPECT_EQ(steps->steps[0].seconds, 0.6) << "the slower rank's";

  const Json alerts =
      Call("query_alerts", {{"run", "m.rank0.db"}}, folder.path())->structured["alerts"];
  ASSERT_EQ(alerts.size(), 3u);
  for (const Json& alert : alerts) {
    const bool range = alert["type"] == "SHADOW_RANGE";
    EXPECT_EQ(alert["rank_count"], range ? 1 : 2) << alert;
    EXPECT_EQ(alert["layer"], range ? "only.on.rank.1" : "block.norm");
    ASSERT_TRUE(alert.contains("finding")) << alert;
    EXPECT_EQ(alert["finding"]["source"],
              alert["finding"]["operator"] == "aten.exp.default" ? "train.py:50" : "train.py:40");
  }
  const Json summary =
      Call("run_summary", {{"run", "m.rank0.db"}}, folder.path())->structured["shadow"];
  EXPECT_EQ(summary["steps"], 3);
  EXPECT_EQ(summary["total"], 3);
  EXPECT_EQ(summary["findings"][0]["module"], "only.on.rank.1");
  EXPECT_EQ(summary["findings"][1]["ranks"], Json::array({0, 1}));

  const Json stats =
      Call("query_stats", {{"run", "m.rank0.db"}, {"metric", "shadow_error"}}, folder.path())
          ->structured;
  ASSERT_EQ(stats["series"].size(), 1u);
  EXPECT_EQ(stats["series"][0]["points"], Json::parse("[[0,0.5]]")) << "the worse rank's";
}

TEST(ShadowTest, VeryManyFindingsAreBounded) {
  TempFolder folder;
  {
    Recording db(folder.File("m.db"));
    db.Run("r");
    db.Step(0, {.loss = 1.0});
    db.Execute(
        "INSERT INTO shadow_finding (run_id, step, kind, severity, operator, source,"
        " precision) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE"
        " i<30000) SELECT 1, i, 'amplified', 'WARNING', 'aten.sub.Tensor', 'a.py:'||i,"
        " 'not_tested' FROM n");
  }
  auto found = runs::ReadShadowFindings(Opened(folder));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rows.size(), 20'000u);
  ASSERT_EQ(found->notes.size(), 1u);
  EXPECT_NE(found->notes[0].find("20000"), std::string::npos);
}

}  // namespace
}  // namespace mpnanny::test
