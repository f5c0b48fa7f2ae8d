// What query_stats is asked: names of layers and metrics, steps, limits.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "monitor/core/catalogue.h"
#include "tests/runs/query_stats_calls.h"
#include "tests/runs/recording.h"
#include "tools/query_stats/metric.h"
#include "tools/query_stats/reading.h"

namespace mpnanny::test {
namespace {

TEST(QueryStatsQuestionTest, LayersByNameGlobExpressionAndModule) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("names");
  const std::string bell = "a\x07\"quoted' name", slash(10'000, 'x');
  for (const std::string& name :
       {std::string("blocks.0.attn.q"), std::string("blocks.0.mlp"), std::string("blocks.1.attn.q"),
        std::string("blocks.10.attn.q"), bell, slash, std::string("层.0")}) {
    db.Layer(name);
  }
  for (int64_t layer = 1; layer <= 7; ++layer) db.Stat(0, layer, {});
  const auto names = [&](const Json& patterns) {
    std::set<std::string> found;
    const Json answer = Ask({{"layers", patterns}}, folder, 64'000);
    for (const Json& series : answer["series"]) found.insert(series["layer"]);
    return found;
  };
  using Names = std::set<std::string>;
  EXPECT_EQ(names({"blocks.0.mlp"}), Names{"blocks.0.mlp"});
  EXPECT_EQ(names({"blocks.1*"}), (Names{"blocks.1.attn.q", "blocks.10.attn.q"}));
  EXPECT_EQ(names({"blocks.0"}), (Names{"blocks.0.attn.q", "blocks.0.mlp"}));
  EXPECT_EQ(names({"/^blocks\\.\\d+\\.attn/"}),
            (Names{"blocks.0.attn.q", "blocks.1.attn.q", "blocks.10.attn.q"}));
  EXPECT_EQ(names({"/mlp$|^层/"}), (Names{"blocks.0.mlp", "层.0"}));
  EXPECT_EQ(names({"a\\u{7}\"quoted' name"}), Names{"a\\u{7}\"quoted' name"});
  EXPECT_EQ(names({bell}), Names{"a\\u{7}\"quoted' name"});
  EXPECT_EQ(names({slash}).size(), 1u);
  EXPECT_EQ(names({"x*"}).size(), 1u);

  const Error near = Refused({{"layers", {"blocks.0.mpl"}}}, folder);
  EXPECT_EQ(near.kind, ErrorKind::kNotFound);
  EXPECT_NE(near.Text().find("blocks.0.mlp"), std::string::npos) << near.Text();
  EXPECT_NE(Refused({{"layers", {"*nothing*"}}}, folder).Text().find("blocks.0.attn.q"),
            std::string::npos);
  EXPECT_NE(Refused({{"layers", {"/(/"}}}, folder).message.find("'('"), std::string::npos);
  const Json partly = Ask({{"layers", {"blocks.0.mlp", "blocks.0.mpl"}}}, folder);
  EXPECT_NE(DumpJson(partly["notes"]).find("blocks.0.mpl"), std::string::npos);
}

TEST(QueryStatsQuestionTest, MetricsAreNamedAsCasesNameThem) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("kinds");
  db.Layer("l");
  db.Stat(0, 1, {.kind = 1, .absmax = 2.0});
  db.Stat(0, 1, {.kind = 3, .absmax = 3.0});
  db.Step(0, {.loss = 1.5});
  const Json gradient = Ask({{"metric", "gradient.absmax"}}, folder);
  ASSERT_EQ(gradient["series"].size(), 1u);
  EXPECT_EQ(gradient["series"][0]["kind"], "gradient");
  EXPECT_EQ(gradient["series"][0]["points"], Json::parse("[[0,3.0]]"));
  EXPECT_EQ(Ask({{"metric", "step.loss"}}, folder)["series"][0]["points"],
            Json::parse("[[0,1.5]]"));
  EXPECT_EQ(Ask({{"metric", "zeros%"}}, folder)["metric"], "zeros_share");
  const Error near = Refused({{"metric", "absmx"}}, folder);
  EXPECT_NE(near.message.find("absmax"), std::string::npos) << near.Text();
  EXPECT_NE(near.hint.find("below_fp16_share"), std::string::npos);
  // A figure that nothing has, steps that are not there, a run without anything.
  EXPECT_TRUE(Ask({{"metric", "frozen"}}, folder)["series"].empty());
  EXPECT_TRUE(Ask({{"steps", "5..9"}}, folder)["series"].empty());
  db.Run("empty", "closed", "fp16", 1.8e9);
  EXPECT_TRUE(Ask({{"metric", "absmax"}}, folder)["series"].empty());
  EXPECT_TRUE(Ask({{"metric", "loss"}}, folder)["series"].empty());
}

TEST(QueryStatsQuestionTest, OneStepWithoutAMetricShowsOtherFiguresToo) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("one");
  db.Layer("l");
  db.Stat(5, 1, {.zeros = 512, .absmax = 2.0, .below_fp16 = 128});
  db.Stat(6, 1, {.absmax = 4.0});
  const Json answer = Ask({{"steps", "5"}}, folder);
  ASSERT_EQ(answer["series"].size(), 1u);
  EXPECT_EQ(answer["series"][0]["figures"]["below_fp16_share"], 0.25);
  EXPECT_EQ(answer["series"][0]["figures"]["zeros_share"], 0.5);
  EXPECT_FALSE(Ask({}, folder)["series"][0].contains("figures"));
}

TEST(QueryStatsQuestionTest, CountsThatWereNotRecordedAreNotZero) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("few figures");
  db.Layer("l");
  db.Stat(0, 1, {.nan = 4});
  db.Execute("UPDATE tensor_stats SET nan=NULL, zeros=NULL");
  EXPECT_TRUE(Ask({{"metric", "nan"}}, folder)["series"].empty());
  EXPECT_TRUE(Ask({{"metric", "below_fp16_share"}}, folder)["series"].empty());
  EXPECT_EQ(Ask({{"metric", "posinf"}}, folder)["series"].size(), 1u);
}

TEST(QueryStatsQuestionTest, LossOverManySteps) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("steps");
  db.Execute("BEGIN");
  const int64_t spike = 17'321, bad = 25'002, steps = 30'000;
  for (int64_t step = 0; step < steps; ++step) {
    const double loss = step == spike ? 1e6 : 5 + std::cos(static_cast<double>(step) / 3000);
    db.Step(step, {.loss = step >= bad ? kNan : loss});
  }
  db.Alert(spike, {.type = "LOSS_SPIKE", .severity = "WARNING"});
  db.Execute("COMMIT");
  const Json answer = Ask({{"metric", "loss"}}, folder);
  const Json& series = answer["series"][0];
  EXPECT_TRUE(series["layer"].is_null());
  EXPECT_EQ(series["kind"], "step");
  EXPECT_EQ(answer["steps"]["all"], false);
  EXPECT_EQ(series["worst"]["step"], spike);
  EXPECT_EQ(series["nonfinite"]["first_step"], bad);
  EXPECT_EQ(answer["omitted"], steps - static_cast<int64_t>(series["points"].size()));
  const Json full = Ask({{"metric", "loss"}, {"detail", "full"}}, folder, 64'000);
  EXPECT_EQ(full["steps"]["all"], true);
  EXPECT_EQ(full["series"][0]["nonfinite"]["samples"], steps - bad);
  const Json few = Ask({{"metric", "loss"}, {"steps", "100..139"}, {"max_points", 2000}}, folder);
  ASSERT_EQ(few["series"][0]["points"].size(), 40u);
  for (int64_t i = 0; i < 40; ++i) {
    const Json& point = few["series"][0]["points"][static_cast<size_t>(i)];
    EXPECT_EQ(point[0], 100 + i);
    EXPECT_NEAR(point[1].get<double>(), 5 + std::cos(static_cast<double>(100 + i) / 3000), 1e-5);
  }
}

TEST(QueryStatsQuestionTest, StepsOfALogMayLieFarApart) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("sparse");
  for (int64_t i = 0; i < 900; ++i) db.Step(i * i * 1'000, {.loss = i == 611 ? 9.0 : 1.0});
  const Json answer = Ask({{"metric", "loss"}}, folder);
  EXPECT_EQ(answer["steps"]["all"], true);
  EXPECT_EQ(answer["series"][0]["looked_at"], 900);
  EXPECT_EQ(answer["series"][0]["worst"]["step"], 611 * 611 * 1'000);
}

TEST(QueryStatsQuestionTest, TheFlightRecorderJoins) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  const int64_t run = db.Run("killed", "");
  db.Layer("l");
  db.Step(0, {.loss = 1.0});
  db.Stat(0, 1, {.absmax = 2.0});
  RingFile ring(folder.File("m.db"), run, 1.7e9);
  ring.Step(1, kNan);
  ring.Sample(10, 1, 1, 8.0, 3);
  ring.Write();
  const Json answer = Ask({}, folder);
  EXPECT_EQ(answer["series"][0]["points"], Json::parse("[[0,2.0],[10,8.0]]"));
  EXPECT_EQ(answer["series"][0]["nonfinite"]["first_step"], 10);
  EXPECT_EQ(Ask({{"layers", {"l"}}, {"steps", "10"}}, folder)["series"][0]["points"],
            Json::parse("[[10,8.0]]"));
  EXPECT_EQ(Ask({{"metric", "loss"}}, folder)["series"][0]["points"],
            Json::parse("[[0,1.0],[1,\"nan\"]]"));
}

TEST(QueryStatsQuestionTest, AQueryPastItsTimeLimitGivesWhatItHas) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("slow");
  db.Layer("l");
  for (int64_t step = 0; step < 100; ++step) db.Stat(step, 1, {});
  auto roots = AllowedRoots::Create({folder.path()});
  ASSERT_TRUE(roots);
  auto source = runs::OpenRun(folder.File("m.db"), *roots, {});
  ASSERT_TRUE(source);
  source->database->LimitTime(std::chrono::seconds(-1));
  query_stats::Question question;
  question.metric = query_stats::FindMetric("absmax")->metric;
  auto answer = query_stats::AnswerQuestion(*source, question);
  ASSERT_TRUE(answer) << answer.error().Text();
  EXPECT_TRUE(answer->out_of_time);
  ASSERT_EQ(answer->series.size(), 1u);
  EXPECT_LT(answer->series[0].looked_at, 100);
}

TEST(QueryStatsQuestionTest, EveryFigureOfTheCatalogueCanBeAskedFor) {
  std::set<std::string> columns, profile, profile_columns;
  for (const Meaning& meaning : MetricCatalogue()) {
    const std::string value(meaning.value), text(meaning.text);
    if (meaning.what != "column") continue;
    if (value.starts_with("shadow_profile.")) profile_columns.insert(value.substr(15));
    for (const std::string table : {"tensor_stats.", "step."}) {
      if (!value.starts_with(table)) continue;
      const std::string column = value.substr(table.size());
      if (column == "exponents" || column == "slot") continue;
      columns.insert(column);
      const auto found = query_stats::FindMetric(column);
      ASSERT_TRUE(found) << column;
      EXPECT_EQ(found->metric->column, column);
      EXPECT_EQ(found->metric->unit == "count", text.ends_with("count")) << column;
      EXPECT_EQ(found->metric->unit == "bytes", text.ends_with(", bytes")) << column;
      EXPECT_EQ(found->metric->unit == "seconds", text.ends_with(", seconds")) << column;
    }
  }
  for (const query_stats::Metric& metric : query_stats::Metrics()) {
    if (metric.of_profile) {  // named for what they are: "fp16" alone would be a format
      profile.insert(std::string(metric.column));
      continue;
    }
    if (metric.column.empty() || metric.column == "dtype") continue;
    EXPECT_TRUE(columns.count(std::string(metric.column))) << metric.name;
  }
  EXPECT_EQ(profile, profile_columns);
}

TEST(QueryStatsQuestionTest, ARunWithoutAScalerIsToldAsOne) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("plain");
  for (int64_t step = 0; step < 5; ++step) db.Step(step, {.loss = 1.0});
  auto none = Call("query_stats", {{"run", "m.db"}, {"metric", "loss_scale"}}, folder.path());
  ASSERT_TRUE(none) << none.error().Text();
  EXPECT_NE(none->text.find("No loss scale was recorded in 5 steps: no GradScaler"),
            std::string::npos)
      << none->text;
  EXPECT_EQ(none->text.find("kinds"), std::string::npos) << none->text;
}

}  // namespace
}  // namespace mpnanny::test
