// `mpnanny pack` of a run with shadow steps: findings keep their alerts, names stay hidden.
#include <gtest/gtest.h>

#include <string>

#include "engines/pack/pack.h"
#include "engines/pack/redaction.h"
#include "tests/runs/run_tools.h"
#include "tests/runs/shadow_recording.h"

namespace mpnanny::test {
namespace {

// Two findings, of which the second (id 2 here) raised an alert, and what else shadow steps report.
void ShadowRun(const std::string& path, int64_t rank = 0, int64_t world_size = 1) {
  Recording db(path);
  db.Run("project_apollo");
  db.Execute("UPDATE run SET rank=" + std::to_string(rank) +
             ", world_size=" + std::to_string(world_size));
  const int64_t layer = db.Layer("secret_encoder.norm", "/home/jane/apollo/model.py:62");
  for (int64_t step = 0; step < 20; ++step) db.Step(step, {.loss = 1.0});
  AddShadowStep(db, 5);
  AddShadowStep(db, 10);
  db.Execute(R"(UPDATE shadow_step SET detail='{"restarts":{"aten.bernoulli_.float":2,)"
             R"("apollo.warp.default":1},"own_seconds":0.5}' WHERE step=5)");
  AddProfile(db, 5, layer, 0, 0.02, 0.001);
  AddProfile(db, 5, layer, 1, 0.5, 0.25);
  FindingSpec noise;
  noise.severity = "INFO";
  noise.op = "apollo.warp.default";
  noise.layer = layer;
  noise.source = "/home/jane/apollo/model.py:7";
  noise.cure = "";
  AddFinding(db, 5, noise);
  FindingSpec range;
  range.kind = "range";
  range.severity = "ERROR";
  range.layer = layer;
  range.source = "/home/jane/apollo/model.py:63";
  range.dtype = "bfloat16 → float16";
  range.share = 0.25;
  range.magnitude = 70000.0;
  range.reach = R"([{"what":"gradient","name":"secret_encoder.norm.weight","error":"inf"},)"
                R"({"what":"output","name":"/home/jane/apollo/train.py:9","error":0.5}])";
  range.cure = R"({"lines":["/home/jane/apollo/model.py:63"],"operators":["aten.mul.Tensor",)"
               R"("apollo.warp.default"],"what":"float32","error_before":1.0,"error_after":1e-4})";
  const int64_t id = AddFinding(db, 10, range);
  db.Execute(
      R"(UPDATE shadow_finding SET detail='{"growth":2500.0,"at":)"
      R"("/home/jane/apollo/model.py:12","operator":"aten.mm.default"}' WHERE kind='range')");
  AddShadowAlert(db, 10, range, id);
}

class PackShadowTest : public ::testing::Test {
 protected:
  Result<pack::PackReport> Pack(pack::PackOptions options) {
    options.run = folder_.File(options.run);
    options.output = folder_.File(options.output);
    return pack::Pack(options, AllowedRoots::Unrestricted(), {});
  }
  Json Ask(const std::string& tool, const std::string& run) {
    auto output = Call(tool, {{"run", run}}, folder_.path());
    EXPECT_TRUE(output) << (output ? "" : output.error().Text());
    return output ? output->structured : Json::object();
  }
  std::string AskSql(const std::string& file, const std::string& sql) {
    Recording db(folder_.File(file));
    sqlite3_stmt* statement = nullptr;
    EXPECT_EQ(sqlite3_prepare_v2(db.handle(), sql.c_str(), -1, &statement, nullptr), SQLITE_OK)
        << sql << ": " << sqlite3_errmsg(db.handle());
    std::string text;
    for (int row = 0; sqlite3_step(statement) == SQLITE_ROW; ++row) {
      if (row > 0) text += '\n';
      for (int column = 0; column < sqlite3_column_count(statement); ++column) {
        const auto* value = sqlite3_column_text(statement, column);
        text += (column > 0 ? "|" : "") +
                std::string(value ? reinterpret_cast<const char*>(value) : "NULL");
      }
    }
    sqlite3_finalize(statement);
    return text;
  }
  // A whole table; JSON is compared by its content, not by its order.
  std::string Rows(const std::string& file, const std::string& table) {
    std::string columns =
        AskSql(file, "SELECT group_concat(name, ', ') FROM pragma_table_info('" + table +
                         "') WHERE name "
                         "NOT IN ('detail')");
    return AskSql(file,
                  "SELECT " + columns +
                      ", json_extract(detail, '$.finding'), "
                      "json_extract(detail, '$.growth'), json_extract(detail, '$.own_seconds')"
                      " FROM " +
                      (table == "shadow_profile" ? "(SELECT *, NULL AS detail FROM "
                                                   "shadow_profile)"
                                                 : table) +
                      " ORDER BY 1, 2, 3, 4");
  }

  TempFolder folder_;
};

TEST_F(PackShadowTest, ShadowStepsAreTold) {
  ShadowRun(folder_.File("run.db"));
  ASSERT_TRUE(Pack({.run = "run.db", .output = "carry.db"}));
  EXPECT_EQ(Ask("run_summary", "carry.db")["shadow"], Ask("run_summary", "run.db")["shadow"]);
  EXPECT_EQ(Ask("query_alerts", "carry.db")["alerts"], Ask("query_alerts", "run.db")["alerts"]);
  for (const char* table : {"shadow_step", "shadow_finding", "shadow_profile", "alert"}) {
    EXPECT_EQ(Rows("carry.db", table), Rows("run.db", table)) << table;
  }
}

TEST_F(PackShadowTest, FindingsOfSeveralRanksHaveIdsOfTheirOwn) {
  for (int64_t rank = 0; rank < 3; ++rank) {
    ShadowRun(folder_.File("m.rank" + std::to_string(rank) + ".db"), rank, 3);
  }
  auto report = Pack({.run = "m.rank0.db", .output = "carry.db"});
  ASSERT_TRUE(report) << report.error().Text();
  EXPECT_EQ(AskSql("carry.db",
                   "SELECT group_concat(run_id || ':' || finding_id, ' ') "
                   "FROM shadow_finding"),
            "1:1 1:2 2:3 2:4 3:5 3:6");
  EXPECT_EQ(
      AskSql("carry.db",
             "SELECT group_concat(a.run_id || ':' || f.finding_id || f.kind, ' ') FROM alert a "
             "JOIN shadow_finding f ON f.finding_id = json_extract(a.detail, '$.finding') "
             "AND f.run_id = a.run_id"),
      "1:2range 2:4range 3:6range");
  EXPECT_EQ(AskSql("carry.db",
                   "SELECT count(*) FROM shadow_profile p JOIN layer l ON "
                   "l.layer_id = p.layer_id AND l.run_id = p.run_id"),
            "6");
  EXPECT_EQ(Ask("run_summary", "carry.db")["shadow"], Ask("run_summary", "m.rank0.db")["shadow"]);
  // An alert whose finding is not there names none.
  Recording db(folder_.File("m.rank0.db"));
  db.Execute("DELETE FROM shadow_finding WHERE kind='range'");
  ASSERT_TRUE(Pack({.run = "m.rank0.db", .output = "carry.db", .force = true}));
  EXPECT_EQ(AskSql("carry.db",
                   "SELECT count(*) FROM alert WHERE run_id=1 AND "
                   "json_extract(detail, '$.finding') IS NULL AND "
                   "json_extract(detail, '$.operator') = 'aten.sub.Tensor'"),
            "1");
}

TEST_F(PackShadowTest, RedactedShadowStepsNameNobodyAndKeepTheirFigures) {
  ShadowRun(folder_.File("run.db"));
  ASSERT_TRUE(Pack({.run = "run.db", .output = "hidden.db", .redact = true}));
  const std::string hidden = ReadAll(folder_.File("hidden.db"));
  for (const char* word : {"secret_encoder", "jane", "apollo", "warp", "model.py", "train.py"}) {
    EXPECT_EQ(hidden.find(word), std::string::npos) << word;
  }
  const std::string file = pack::HashedName("/home/jane/apollo/model.py");
  const Json shadow = Ask("run_summary", "hidden.db")["shadow"];
  ASSERT_EQ(shadow["findings"].size(), 2u) << shadow;
  const Json& range = shadow["findings"][0];
  EXPECT_EQ(range["kind"], "range");
  EXPECT_EQ(range["operator"], "aten.sub.Tensor");
  EXPECT_EQ(range["source"], file + ":63");
  EXPECT_EQ(range["module"], pack::RedactedLayer("secret_encoder.norm"));
  EXPECT_EQ(range["reach"][0]["what"], "gradient");
  EXPECT_EQ(range["reach"][0]["name"], pack::RedactedLayer("secret_encoder.norm.weight"));
  EXPECT_EQ(range["reach"][1]["name"], pack::HashedName("/home/jane/apollo/train.py") + ":9");
  EXPECT_EQ(range["reach"][1]["error"], 0.5);
  EXPECT_EQ(range["cure"]["lines"], (Json{file + ":63"}));
  EXPECT_EQ(range["cure"]["what"], "float32");
  EXPECT_EQ(AskSql("hidden.db",
                   "SELECT json_extract(cure, '$.operators') FROM shadow_finding "
                   "WHERE kind='range'"),
            R"(["aten.mul.Tensor",")" + pack::RedactedLayer("apollo.warp.default") + R"("])");
  EXPECT_EQ(AskSql("hidden.db", "SELECT detail FROM shadow_finding WHERE kind='range'"),
            R"({"growth":2500.0,"at":")" + file + R"(:12","operator":"aten.mm.default"})");
  EXPECT_EQ(AskSql("hidden.db",
                   "SELECT json_extract(detail, '$.restarts.\"aten.bernoulli_.float\"')"
                   " FROM shadow_step WHERE step=5"),
            "2");
  const Json alert = Ask("query_alerts", "hidden.db")["alerts"][0];
  EXPECT_EQ(alert["finding"]["source"], file + ":63");
  // Detail that is no JSON might hold anything.
  Recording db(folder_.File("run.db"));
  db.Execute("UPDATE shadow_finding SET reach='secret_encoder', cure='[', detail='jane'");
  db.Execute("UPDATE alert SET detail='apollo'");
  ASSERT_TRUE(Pack({.run = "run.db", .output = "hidden.db", .redact = true, .force = true}));
  EXPECT_EQ(AskSql("hidden.db",
                   "SELECT count(*) FROM shadow_finding, alert WHERE reach IS NULL AND "
                   "cure IS NULL AND shadow_finding.detail IS NULL AND alert.detail IS "
                   "NULL"),
            "2");
}

TEST_F(PackShadowTest, ADatabaseOfVersionOneHasNoShadow) {
  ShadowRun(folder_.File("run.db"));
  {
    Recording db(folder_.File("run.db"));
    for (const char* table : {"shadow_step", "shadow_finding", "shadow_profile"}) {
      db.Execute("DROP TABLE " + std::string(table));
    }
    db.Execute("ALTER TABLE alert DROP COLUMN detail");
  }
  auto report = Pack({.run = "run.db", .output = "carry.db"});
  ASSERT_TRUE(report) << report.error().Text();
  EXPECT_EQ(report->alerts, 1);
  EXPECT_EQ(Ask("run_summary", "carry.db")["shadow"], nullptr);
}

}  // namespace
}  // namespace mpnanny::test
