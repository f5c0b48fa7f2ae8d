// The questions that docs/export.md asks of Parquet files, as they stand there, of runs whose
// answers are known.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/runs/parquet_files.h"
#include "tests/runs/run_tools.h"

namespace mpnanny::test {
namespace {

class ExportQueriesTest : public ParquetTest {
 protected:
  // The statement below the line of the page that begins so, on the exported files.
  Rows AskPage(const std::string& question) {
    const std::string page = ReadAll(MPNANNY_SOURCE_DIR "/docs/export.md");
    const size_t at = page.find(question);
    const size_t begin = page.find("```sql\n", at);
    const size_t end = page.find("```", begin + 7);
    EXPECT_NE(at, std::string::npos) << question;
    if (at == std::string::npos || end == std::string::npos) return {};
    std::string sql = page.substr(begin + 7, end - begin - 7);
    sql.erase(sql.find(';'));
    for (size_t i = 0; (i = sql.find(".parquet'", i)) != std::string::npos; i += 9) {
      const size_t quote = sql.rfind('\'', i);
      const std::string folder = folder_.File("out") + "/";
      sql.insert(quote + 1, folder);
      i += folder.size();
    }
    return Ask(sql);
  }

  // One rank of a run of three layers, which goes wrong at step 6.
  void Fill(const std::string& path, int64_t rank, int64_t world_size, bool bad) {
    Recording db(folder_.File(path), false, 3);
    db.Run(bad ? "broken" : "sound");
    db.Execute("UPDATE run SET rank=" + std::to_string(rank) +
               ", world_size=" + std::to_string(world_size));
    const int64_t fc1 = db.Layer("fc1"), fc2 = db.Layer("fc2"), head = db.Layer("head");
    for (int64_t step = 0; step < 8; ++step) {
      const double scale = bad && step >= 6 ? 512.0 : 1024.0;
      db.Step(step, {.loss = 1.0, .scale = scale, .flags = bad && step == 6 ? 16u : 0u});
      db.Stat(step, fc1, {.kind = 1, .absmax = 10.0 * static_cast<double>(step + 1 + rank)});
      db.Stat(step, fc1, {.kind = 3, .absmax = 1.0});
      db.Stat(step, fc2, {.kind = 3, .absmax = bad ? 100.0 + static_cast<double>(step) : 2.0});
      db.Stat(step, head, {.kind = 3, .nan = bad && step == 6 ? 3 : 0, .absmax = 0.5});
      const auto figure = [&](int64_t layer, int what, int64_t hash, double l2) {
        db.Execute(
            "INSERT INTO rank_figures (run_id, step, layer_id, what, holders, first, hash, "
            "l2) VALUES (1," +
            std::to_string(step) + "," + std::to_string(layer) + "," + std::to_string(what) +
            ",'0-1',0," + std::to_string(hash) + "," + std::to_string(l2) + ")");
      };
      figure(fc1, 0, 100 + step, 1.0);
      figure(fc2, 0, bad && step >= 5 ? 7 + rank : 7, 2.0 + 0.5 * static_cast<double>(rank));
      figure(fc2, 2, 1000 + rank, 1.0);
    }
    if (bad) db.Alert(6, {.type = "NAN", .layer = head, .kind = 3});
    if (bad && rank == 1) db.Alert(7, {.type = "NAN", .layer = fc2, .kind = 3});
    db.Alert(2, {.type = "UNDERFLOW", .severity = "WARNING", .layer = fc1});
  }

  void SetUp() override {
    ParquetTest::SetUp();
    if (IsSkipped()) return;
    Fill("bad/m.rank0.db", 0, 2, true);
    Fill("bad/m.rank1.db", 1, 2, true);
    Fill("sound/m.db", 0, 1, false);
    Exported({.runs = {"bad", "sound"}});
    bad_ = folder_.File("bad/m.rank0.db") + "#1";
    sound_ = folder_.File("sound/m.db") + "#1";
  }

  std::string bad_, sound_;
};

TEST_F(ExportQueriesTest, WorstLayersByGradient) {
  EXPECT_EQ(AskPage("Which layers had the largest gradients"),
            (Rows{{"head", "0.5", bad_, "0", "6"},
                  {"fc2", "107.0", bad_, "7", "0"},
                  {"fc1", "1.0", bad_, "0", "0"}}));
}

TEST_F(ExportQueriesTest, StepsAtWhichRanksDisagree) {
  EXPECT_EQ(AskPage("At which steps do ranks hold different"),
            (Rows{{bad_, "5", "fc2", "0", "2", "[0, 1]", "0.5"},
                  {bad_, "6", "fc2", "0", "2", "[0, 1]", "0.5"},
                  {bad_, "7", "fc2", "0", "2", "[0, 1]", "0.5"}}));
}

TEST_F(ExportQueriesTest, FallsOfTheLossScale) {
  EXPECT_EQ(AskPage("When did the loss scale fall"), (Rows{{bad_, "6", "1024.0", "512.0"}}));
}

TEST_F(ExportQueriesTest, RunsThatHaveAnAlertOfAType) {
  EXPECT_EQ(AskPage("Which runs have an alert of a type"),
            (Rows{{bad_, "broken", "6", "head", "2"}}));
}

TEST_F(ExportQueriesTest, OneLayersMagnitudesOverTheSteps) {
  const Rows rows = AskPage("How did the largest magnitude of one layer's activations go");
  ASSERT_EQ(rows.size(), 24u);
  EXPECT_EQ(rows[0], (std::vector<std::string>{bad_, "0", "0", "10.0", "0"}));
  EXPECT_EQ(rows[15], (std::vector<std::string>{bad_, "1", "7", "90.0", "0"}));
  EXPECT_EQ(rows[16], (std::vector<std::string>{sound_, "0", "0", "10.0", "0"}));
}

}  // namespace
}  // namespace mpnanny::test
