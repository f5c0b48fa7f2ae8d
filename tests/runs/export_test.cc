// `mpnanny export`: the files hold what the databases hold, of all ranks and runs that are named.
#include "engines/export/export.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "engines/export/tables.h"
#include "tests/runs/parquet_files.h"

namespace mpnanny::test {
namespace {

class ExportTest : public ParquetTest {
 protected:
  // Some rows in every table, with what a file may hold at its edges. Layers have their ids in the
  // order of `names`.
  void Fill(Recording& db, const std::vector<std::string>& names, int64_t rank = 0,
            int64_t world_size = 1, int steps = 3000) {
    db.Run("training");
    db.Execute("UPDATE run SET rank=" + std::to_string(rank) +
               ", world_size=" + std::to_string(world_size));
    std::vector<int64_t> layers;
    for (const std::string& name : names) layers.push_back(db.Layer(name));
    db.Execute("BEGIN");
    for (int64_t step = 0; step < steps; ++step) {
      db.Step(step, {.loss = step % 7 == 0 ? Real() : Real(1.0 / static_cast<double>(step)),
                     .scale = step % 2 == 0 ? Real() : Real(65536.0)});
      for (const int64_t layer : layers) {
        db.Stat(step, layer, {.kind = step % 4, .absmax = 1e-300 * static_cast<double>(step)});
      }
    }
    const std::string run = std::to_string(db.run());
    db.Execute("UPDATE tensor_stats SET exponents=x'0001FF7F0022' WHERE step%5=0");
    db.Execute("UPDATE tensor_stats SET exponents=x'' WHERE step=1");
    db.Execute("UPDATE step SET lr=5e-324, grad_norm=1.7976931348623157e308 WHERE step=2");
    db.Alert(7, {.type = "NAN", .layer = layers.front(), .message = "a \"quoted\", 'odd'\n\tline"});
    db.Alert(8, {.type = "INF", .message = ""});
    db.Alert(9, {.type = "NAN", .message = "权重 \xF0\x9F\x92\xA5", .detail = R"({"finding":1})"});
    db.Execute("UPDATE alert SET message=CAST(x'610062' AS TEXT) WHERE step=8");
    db.Execute("INSERT INTO event VALUES (" + run + ",NULL,1.5,'odd',NULL)");
    db.Execute("INSERT INTO shadow_step (run_id, step, why, seconds) VALUES (" + run +
               ",4,'asked',0.25)");
    db.Execute(
        "INSERT INTO shadow_finding (run_id, step, kind, severity, operator, precision, "
        "layer_id) VALUES (" +
        run + ",4,'range','ERROR','aten.exp.default','proven',NULL)");
    db.Execute("INSERT INTO shadow_profile (run_id, step, layer_id, phase, error) VALUES (" + run +
               ",4,1,0,1e-7)");
    db.Execute(
        "INSERT INTO rank_figures (run_id, step, layer_id, what, holders, hash, l2) VALUES "
        "(" +
        run + ",0,1,0,'0-1',-9223372036854775808,0.1)");
    db.Execute("INSERT INTO collective (run_id, step, sequence, operation, hash_in) VALUES (" +
               run + ",0,0,'all_reduce',9223372036854775807)");
    db.Execute("COMMIT");
  }
};

TEST_F(ExportTest, EveryRowOfEveryTableIsInItsFileAsItIs) {
  {
    Recording db(folder_.File("run.db"), false, 3);
    Fill(db, {"fc1", "层.2, \"x\""});
  }
  const auto report = Exported({.runs = {"run.db"}});
  EXPECT_EQ(report.notes, std::vector<std::string>());
  EXPECT_EQ(report.ranks, 1);
  const std::vector<std::string> tables = TablesOf("run.db");
  ASSERT_EQ(report.tables.size(), tables.size());
  std::vector<std::string> files;
  for (const std::string& table : tables) {
    const Rows expected = OfDatabase("run.db", table);
    EXPECT_FALSE(expected.empty()) << table << ": give it a row in Fill()";
    EXPECT_EQ(OfFile(table, "run.db"), expected) << table;
    files.push_back(table + ".parquet");
  }
  std::sort(files.begin(), files.end());
  EXPECT_EQ(Listed("out"), files) << "nothing else is left there";
  for (const exports::ExportedTable& table : report.tables) {
    EXPECT_EQ(std::to_string(table.rows),
              Ask("SELECT count(*) FROM " + Parquet(table.name)).at(0).at(0))
        << table.name;
    struct stat status {};
    ASSERT_EQ(stat((folder_.File("out/") + table.name + ".parquet").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u) << table.name;
    EXPECT_EQ(table.bytes, status.st_size) << table.name;
  }
}

TEST_F(ExportTest, TypesAreThoseOfTheSchemaAndRunAndRankStandInFront) {
  {
    Recording db(folder_.File("run.db"), false, 3);
    Fill(db, {"fc1"}, 0, 1, 10);
  }
  Exported({.runs = {"run.db"}});
  const auto types = [&](const std::string& table) {
    std::string shown;
    for (const auto& row : Ask("SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM " +
                               Parquet(table) + ")")) {
      shown += row[0] + " " + row[1] + ";";
    }
    return shown;
  };
  EXPECT_TRUE(types("tensor_stats")
                  .starts_with("run VARCHAR;rank BIGINT;run_id BIGINT;step BIGINT;layer_id BIGINT;"
                               "layer VARCHAR;kind BIGINT;"))
      << types("tensor_stats");
  EXPECT_NE(types("tensor_stats").find("absmax DOUBLE;"), std::string::npos);
  EXPECT_NE(types("tensor_stats").find("exponents BLOB;"), std::string::npos);
  EXPECT_TRUE(types("run").starts_with("run VARCHAR;rank BIGINT;run_id BIGINT;name VARCHAR;"));
  EXPECT_EQ(types("run").find("rank", 24), std::string::npos) << "once is enough";
  EXPECT_EQ(types("meaning"), "run VARCHAR;rank BIGINT;what VARCHAR;value VARCHAR;text VARCHAR;");
  EXPECT_NE(types("alert").find("layer_id BIGINT;layer VARCHAR;"), std::string::npos);
}

TEST_F(ExportTest, AllRanksStandTogetherAndALayerIsThatOfItsRank) {
  {
    Recording first(folder_.File("m.rank0.db"), false, 3);
    Fill(first, {"fc1", "fc2"}, 0, 2, 20);
    Recording second(folder_.File("m.rank1.db"), false, 3);
    Fill(second, {"fc2", "fc1"}, 1, 2, 30);
  }
  const auto report = Exported({.runs = {"m.rank0.db"}});
  EXPECT_EQ(report.ranks, 2);
  const std::string handle = folder_.File("m.rank0.db") + "#1";
  EXPECT_EQ(report.runs, std::vector<std::string>{handle});
  EXPECT_EQ(
      Ask("SELECT run, rank, count(*) FROM " + Parquet("step") + " GROUP BY ALL ORDER BY ALL"),
      (Rows{{handle, "0", "20"}, {handle, "1", "30"}}));
  EXPECT_EQ(Ask("SELECT DISTINCT rank, layer_id, layer FROM " + Parquet("tensor_stats") +
                " ORDER BY ALL"),
            (Rows{{"0", "1", "fc1"}, {"0", "2", "fc2"}, {"1", "1", "fc2"}, {"1", "2", "fc1"}}));
  EXPECT_EQ(OfFile("tensor_stats", "m.rank1.db", " WHERE rank=1"),
            OfDatabase("m.rank1.db", "tensor_stats"));
  // Another rank's file means that rank alone, as everywhere.
  EXPECT_EQ(Exported({.runs = {"m.rank1.db"}, .output = "alone"}).ranks, 1);
  EXPECT_EQ(Ask("SELECT DISTINCT rank FROM " + Parquet("step", "alone")), (Rows{{"1"}}));
}

TEST_F(ExportTest, ManyRanksAreReadOneAfterTheOther) {
  for (int64_t rank = 0; rank < 70; ++rank) {
    Recording db(folder_.File("m.rank" + std::to_string(rank) + ".db"), false, 3);
    db.Run("wide");
    db.Execute("UPDATE run SET world_size=71, rank=" + std::to_string(rank));
    db.Step(rank, {.loss = 1.0});
  }
  const auto report = Exported({.runs = {"m.rank0.db"}, .tables = {"step", "run"}});
  EXPECT_EQ(report.ranks, 70);
  EXPECT_EQ(Ask("SELECT count(*), count(DISTINCT rank), sum((rank <> step)::INT) FROM " +
                Parquet("step")),
            (Rows{{"70", "70", "0"}}));
  ASSERT_EQ(report.notes.size(), 1u) << "rank 70 is missing";
  EXPECT_NE(report.notes[0].find("70 of 71"), std::string::npos) << report.notes[0];
}

TEST_F(ExportTest, AFolderMeansEveryRunBelowItAndEachIsThereOnce) {
  {
    Recording two(folder_.File("runs/a/two.db"), false, 3);
    Fill(two, {"fc1"}, 0, 1, 5);
    two.Run("second");
    two.Step(0, {});
    Recording other(folder_.File("runs/b.db"), false, 3);
    Fill(other, {"fc1"}, 0, 1, 6);
  }
  folder_.Write("runs/notes.db", "no database");
  const auto report = Exported({.runs = {"runs", "runs/b.db"}, .tables = {"step"}});
  EXPECT_EQ(report.runs.size(), 3u);
  EXPECT_EQ(Ask("SELECT run, count(*) FROM " + Parquet("step") + " GROUP BY run ORDER BY run"),
            (Rows{{folder_.File("runs/a/two.db") + "#1", "5"},
                  {folder_.File("runs/a/two.db") + "#2", "1"},
                  {folder_.File("runs/b.db") + "#1", "6"}}));
  EXPECT_EQ(Listed("out"), std::vector<std::string>{"step.parquet"});
  // A file means its newest run, as everywhere.
  EXPECT_EQ(Exported({.runs = {"runs/a/two.db"}, .output = "one"}).runs,
            std::vector<std::string>{folder_.File("runs/a/two.db") + "#2"});
}

TEST_F(ExportTest, WhatAnEarlierSchemaLacksIsNullOrEmpty) {
  {
    Recording db(folder_.File("old.db"), false, 1);
    db.Run("old");
    db.Alert(3, {.type = "NAN"});
  }
  const auto report = Exported({.runs = {"old.db"}});
  EXPECT_EQ(report.notes, std::vector<std::string>());
  EXPECT_EQ(Ask("SELECT step, detail IS NULL FROM " + Parquet("alert")), (Rows{{"3", "true"}}));
  for (const char* table : {"shadow_finding", "rank_figures", "collective"}) {
    EXPECT_EQ(Ask("SELECT count(*), count(DISTINCT step) FROM " + Parquet(table)),
              (Rows{{"0", "0"}}))
        << table;
  }
}

TEST_F(ExportTest, ALogOfAnotherProgramGivesItsSteps) {
  folder_.Write("log.csv", "step,loss,lr\n0,2.5,0.1\n1,2.25,0.1\n2,nan,0.1\n");
  Exported({.runs = {"log.csv"}});
  EXPECT_EQ(Ask("SELECT step, loss, flags & 1 FROM " + Parquet("step") + " ORDER BY step"),
            (Rows{{"0", "2.5", "0"}, {"1", "2.25", "0"}, {"2", "", "1"}}));
}

TEST_F(ExportTest, WhatOnlyTheFlightRecorderKnowsIsTold) {
  {
    Recording db(folder_.File("run.db"), false, 3);
    db.Run("r", "", "fp16", 1.6e9);
    for (int64_t step = 0; step < 40; ++step) db.Step(step, {.loss = 1.0});
  }
  RingFile ring(folder_.File("run.db"), 1, 1.6e9);
  for (int64_t step = 38; step < 50; ++step) ring.Step(step, 1.0);
  ring.Write();
  const auto report = Exported({.runs = {"run.db"}, .tables = {"step"}});
  ASSERT_EQ(report.notes.size(), 1u);
  EXPECT_NE(report.notes[0].find("10 steps more"), std::string::npos) << report.notes[0];
}

TEST(ExportTables, AreTheSchemasOwnAndAWrongNameIsTold) {
  const auto tables = exports::ChosenTables({"alert", "step"});
  ASSERT_TRUE(tables);
  ASSERT_EQ(tables->size(), 2u);
  EXPECT_EQ(tables->at(0).name, "step") << "in the schema's order";
  const auto wrong = exports::ChosenTables({"step", "alerts"});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().kind, ErrorKind::kNotFound);
  EXPECT_NE(wrong.error().Text().find("'alert'"), std::string::npos) << wrong.error().Text();
}

}  // namespace
}  // namespace mpnanny::test
