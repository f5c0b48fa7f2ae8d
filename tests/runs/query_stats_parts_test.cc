// What query_stats is made of: patterns, thinned series, distributions.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <regex>

#include "numerics/tensor_stats.h"
#include "tests/runs/recording.h"
#include "tools/query_stats/distribution.h"
#include "tools/query_stats/layer_choice.h"
#include "tools/query_stats/pattern.h"
#include "tools/query_stats/series.h"

namespace mpnanny::test {
namespace {

using query_stats::Pattern;
using query_stats::Point;

TEST(PatternTest, FindsWhatStdRegexFinds) {
  const char* const patterns[] = {
      "a",       "^a",     "a$",      "^$",      "a*b",       "(ab)+c",   "a|b|^c", "[ab]c",
      "[^ab]c",  "a{2}",   "a{2,}b",  "a{1,2}c", "(a|bc)*$",  "a.c",      "\\.b",   "\\d+",
      "[0-9a]c", "(a*)*b", "(a|a)*c", "^(a|b)$", "x?a?b?c?$", "((a))(b)", "[]a]b",  "a+?b"};
  std::mt19937 random(5);
  for (const char* text : patterns) {
    auto pattern = Pattern::Create(text);
    ASSERT_TRUE(pattern) << text << ": " << pattern.error().Text();
    // POSIX takes "]" first in a set as itself, and has no lazy repeats.
    const bool posix = std::string_view(text) == "[]a]b";
    const std::regex reference(text, posix ? std::regex::extended : std::regex::ECMAScript);
    for (int i = 0; i < 400; ++i) {
      std::string name;
      for (size_t n = random() % 9; n > 0; --n) name += "abc.01]x"[random() % 8];
      EXPECT_EQ(pattern->Finds(name), std::regex_search(name, reference))
          << "/" << text << "/ in '" << name << "'";
    }
  }
}

TEST(PatternTest, HostilePatternsAreRefusedOrQuick) {
  for (const char* bad : {"(", ")", "[a", "a{", "a{3,1}", "a{999}", "*a", "\\", "[z-a]", "\\q",
                          "((((a{50}){50}){50}){50})"}) {
    const auto pattern = Pattern::Create(bad);
    ASSERT_FALSE(pattern) << bad;
    EXPECT_EQ(pattern.error().kind, ErrorKind::kInvalidInput);
    EXPECT_GT(pattern.error().message.size(), 20u);
  }
  EXPECT_FALSE(Pattern::Create(std::string(60, '(') + "a" + std::string(60, ')')));
  EXPECT_FALSE(Pattern::Create(std::string(1'001, 'a')));
  // What backtracking takes exponential time for.
  auto pattern = Pattern::Create("^(a|aa)+(a*)*$");
  ASSERT_TRUE(pattern);
  EXPECT_FALSE(pattern->Finds(std::string(10'000, 'a') + "b"));
  EXPECT_TRUE(pattern->Finds(std::string(10'000, 'a')));
}

TEST(BlockTest, EndsAtTheFirstNumber) {
  using query_stats::BlockOf;
  EXPECT_EQ(BlockOf("blocks.3.attn.q"), "blocks.3");
  EXPECT_EQ(BlockOf("model.layers.11.mlp.experts.2.w"), "model.layers.11");
  EXPECT_EQ(BlockOf("embed.weight"), "embed");
  EXPECT_EQ(BlockOf("head"), "head");
  EXPECT_EQ(BlockOf("0.conv"), "0");
  EXPECT_EQ(BlockOf(""), "");
  EXPECT_EQ(BlockOf("a..b"), "a");
  EXPECT_EQ(BlockOf("layer3x.conv"), "layer3x");
}

TEST(SeriesTest, ThinningKeepsEndsExtremesAndNonFiniteStretches) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    std::vector<Point> points;
    const size_t count = 1 + random() % 500;
    int64_t step = 0;
    for (size_t i = 0; i < count; ++i) {
      step += 1 + static_cast<int64_t>(random() % 3 == 0 ? random() % 1000 : 0);
      const bool bad = round % 3 == 0 && i > count / 2;
      points.push_back({step, bad ? NAN : std::uniform_real_distribution<>(-5, 5)(random), bad});
    }
    for (const size_t most : {2, 3, 16, 64, 1000}) {
      const auto thin = Thinned(points, most);
      EXPECT_LE(thin.size(), std::max<size_t>(2 * most, 6));
      EXPECT_EQ(thin.front().step, points.front().step);
      EXPECT_EQ(thin.back().step, points.back().step);
      for (size_t i = 1; i < thin.size(); ++i) EXPECT_LT(thin[i - 1].step, thin[i].step);
      if (most < 16) continue;
      const auto by_value = [](const Point& a, const Point& b) {
        // NaN never wins.
        return (std::isnan(a.value) ? -INFINITY : a.value) <
               (std::isnan(b.value) ? -INFINITY : b.value);
      };
      EXPECT_EQ(std::max_element(thin.begin(), thin.end(), by_value)->step,
                std::max_element(points.begin(), points.end(), by_value)->step);
      const auto bad = [](const Point& p) { return p.nonfinite; };
      const auto first = std::find_if(points.begin(), points.end(), bad);
      if (first != points.end()) {
        EXPECT_EQ(std::find_if(thin.begin(), thin.end(), bad)->step, first->step);
      }
    }
  }
}

TEST(SeriesTest, WhatIsKnownOfASeriesSurvivesThinning) {
  query_stats::Series series;
  for (int64_t step = 0; step < 10'000; ++step) {
    const bool bad = step >= 9'000 && step < 9'100;
    series.Add({step,
                bad             ? NAN
                : step == 4'321 ? 99.0
                                : 1.0,
                bad},
               query_stats::Worse::kLarger, 64);
  }
  EXPECT_LT(series.points.size(), 64u);
  EXPECT_EQ(series.looked_at, 10'000);
  EXPECT_EQ(series.worst->step, 4'321);
  EXPECT_EQ(series.nonfinite, 100);
  EXPECT_EQ(series.first_nonfinite, 9'000);
  EXPECT_EQ(series.last_nonfinite, 9'099);
  EXPECT_NE(std::find_if(series.points.begin(), series.points.end(),
                         [](const Point& p) { return p.value == 99; }),
            series.points.end());
}

TEST(SeriesTest, SparklinesOfAnyValues) {
  const auto line = [](const std::vector<double>& values) {
    std::vector<Point> points;
    for (const double value : values) {
      points.push_back({static_cast<int64_t>(points.size()), value, !std::isfinite(value)});
    }
    return runs::Sparkline(query_stats::SparkCells(points, 8));
  };
  EXPECT_EQ(line({1, 2, 3, 4, 5, 6, 7, 8}), "▁▂▃▄▅▆▇█");
  EXPECT_EQ(line({1e-8, 1e-4, 1}), "▁▅█");  // logarithmic
  EXPECT_EQ(line({5, 5, 5}), "▄▄▄");
  EXPECT_EQ(line({1, NAN, INFINITY, 2}), "▁!!█");
  EXPECT_EQ(line({-1e308, 1e308}), "▁█");
  EXPECT_EQ(line({}), "");
}

TEST(DistributionTest, SharesAreThoseOfTheElements) {
  std::mt19937 random(3);
  for (const double centre : {-30.0, -20.0, -8.0, 0.0, 9.0, 16.0}) {
    std::vector<float> values(20'000);
    std::normal_distribution<double> level(centre, 4);
    for (float& value : values) {
      value = static_cast<float>(std::exp2(level(random)) * (random() % 2 ? 1 : -1));
    }
    values[0] = 0;
    const std::vector<int64_t> shape = {static_cast<int64_t>(values.size())};
    const TensorView view{values.data(), DType::kFloat32, shape, {}};
    ExponentHistogram counts;
    const TensorStats stats = ComputeStats(view, &counts);
    runs::TensorRow row;
    row.kind = runs::kActivation;
    row.numel = stats.numel;
    row.zeros = stats.zeros;
    row.absmax = stats.absmax;
    row.below_fp16 = stats.below_fp16;
    row.above_fp16 = stats.above_fp16;
    row.subnormal_fp16 = stats.subnormal_fp16;
    const auto d = query_stats::MakeDistribution(row, counts, std::nullopt);
    EXPECT_EQ(d.total, stats.numel);
    EXPECT_EQ(d.zeros, 1);
    for (const auto& fit : query_stats::FitFormats(d)) {
      int64_t under = 0, over = 0, under_at_best = 0, over_at_best = 0;
      for (const float value : values) {
        const double rounded = RoundTo(fit.format, value);
        under += value != 0 && rounded == 0;
        over += !std::isfinite(rounded);
        const double scaled = RoundTo(fit.format, std::ldexp(value, *fit.best_shift));
        under_at_best += value != 0 && scaled == 0;
        over_at_best += !std::isfinite(scaled);
      }
      const double all = static_cast<double>(values.size());
      SCOPED_TRACE(std::string(Info(fit.format).name) + " at 2^" + std::to_string(centre));
      EXPECT_NEAR(fit.under, static_cast<double>(under) / all, 1e-9);
      EXPECT_LE(fit.over, static_cast<double>(over) / all + 1e-12);
      EXPECT_GE(fit.over_at_most, static_cast<double>(over) / all - 1e-12);
      EXPECT_NEAR(fit.under_at_best, static_cast<double>(under_at_best) / all, 1e-9);
      EXPECT_EQ(over_at_best, 0);
    }
  }
}

// Counts as the monitor writes them.
std::string Blob(const std::vector<std::pair<int, int>>& counts) {
  std::vector<int> all(256);
  for (const auto& [field, count] : counts) all[static_cast<size_t>(field)] = count;
  std::string hex;
  for (int rest : all) {
    char byte[3];
    for (; rest >= 0x80; rest >>= 7) {
      std::snprintf(byte, sizeof(byte), "%02x", (rest | 0x80) & 0xff);
      hex += byte;
    }
    std::snprintf(byte, sizeof(byte), "%02x", rest);
    hex += byte;
  }
  return hex;
}

Result<ToolOutput> AskDistribution(const TempFolder& folder, Json more) {
  Json arguments = {{"run", "m.db"}, {"metric", "distribution"}, {"layers", {"l"}}};
  arguments.update(more);
  return Call("query_stats", arguments, folder.path());
}

TEST(DistributionTest, OfAGradientUnderTheLossScale) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("scaled");
  db.Layer("l");
  // Held up to 2^10, written unscaled: 1.5 * 2^10 / 1024.
  db.Step(20, {.loss = 1.0, .scale = 1024.0});
  db.Stat(20, 1, {.kind = 3, .numel = 1000, .zeros = 100, .absmax = 1.5});
  db.Execute(
      "UPDATE tensor_stats SET below_fp16=NULL, subnormal_fp16=NULL, above_fp16=NULL,"
      " exponents=x'" +
      Blob({{0, 100}, {127 + 10, 300}, {127 - 30, 500}, {255, 100}}) + "'");
  db.Stat(30, 1, {.kind = 3});  // a light sample
  auto output = AskDistribution(folder, Json::object());
  ASSERT_TRUE(output) << output.error().Text();
  const Json& series = output->structured["series"][0];
  const Json& d = series["distribution"];
  EXPECT_EQ(d["step"], 20);
  EXPECT_EQ(d["held_under"], 1024);
  EXPECT_EQ(d["numel"], 1000);
  EXPECT_EQ(d["zeros"], 100);
  EXPECT_EQ(d["nonfinite"], 100);
  EXPECT_EQ(d["bins"], Json::parse("[[-30,500],[10,300]]"));
  const Json& fp16 = d["formats"][0];
  EXPECT_EQ(fp16["format"], "fp16");
  EXPECT_EQ(fp16["under"], 0.5);
  // 2^10 held under 1024 becomes 2^14 under 16384: a factor of two to four below 65504.
  EXPECT_EQ(fp16["best_scale"], 16384);
  EXPECT_NE(output->text.find("fp16 max"), std::string::npos);
  EXPECT_NE(output->text.find("e4m3 max"), std::string::npos);
  EXPECT_NE(output->text.find("loss scale 1024"), std::string::npos);

  // A step without exponents: the nearest one that has some, and so it says.
  auto near = AskDistribution(folder, {{"steps", "30"}});
  ASSERT_TRUE(near);
  EXPECT_EQ(near->structured["series"][0]["distribution"]["step"], 20);
  EXPECT_NE(DumpJson(near->structured["notes"]).find("Step 30"), std::string::npos);
  auto after = AskDistribution(folder, {{"steps", "3"}});
  ASSERT_TRUE(after);
  EXPECT_EQ(after->structured["series"][0]["distribution"]["step"], 20);
}

TEST(DistributionTest, TakesTheLastSampleWithFiniteValues) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("broke");
  db.Layer("l");
  db.Stat(10, 1, {.numel = 100});
  db.Execute("UPDATE tensor_stats SET exponents=x'" + Blob({{127, 100}}) + "'");
  for (const int64_t step : {20, 30}) db.Stat(step, 1, {.numel = 100, .nan = 100, .absmax = {}});
  db.Execute("UPDATE tensor_stats SET exponents=x'" + Blob({{255, 100}}) + "' WHERE step > 10");
  auto last = AskDistribution(folder, Json::object());
  ASSERT_TRUE(last) << last.error().Text();
  EXPECT_EQ(last->structured["series"][0]["distribution"]["step"], 10);
  EXPECT_NE(last->text.find("Step 10 is the last sample"), std::string::npos) << last->text;
  EXPECT_NE(last->text.find("At step 30"), std::string::npos) << last->text;

  // Where none is finite, and of a step that was asked about, it is said plainly.
  for (const char* steps : {"20..30", "20"}) {
    auto bad = AskDistribution(folder, {{"steps", steps}});
    ASSERT_TRUE(bad) << bad.error().Text();
    const Json& d = bad->structured["series"][0]["distribution"];
    EXPECT_EQ(d["step"], std::string(steps) == "20" ? 20 : 30);
    EXPECT_TRUE(d["formats"].empty()) << d;
    EXPECT_NE(bad->text.find("all 100 elements are NaN or infinite"), std::string::npos)
        << bad->text;
    EXPECT_EQ(bad->text.find("overflow"), std::string::npos) << bad->text;
  }
}

TEST(DistributionTest, NoneRecordedOrDamaged) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("none");
  db.Layer("l");
  db.Stat(0, 1, {});
  auto none = AskDistribution(folder, Json::object());
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->structured["series"].empty());
  EXPECT_NE(none->text.find("metrics="), std::string::npos) << none->text;
  for (const char* bytes : {"x''", "x'80'", "x'ffffffffffffffffffff01'"}) {
    db.Execute("UPDATE tensor_stats SET exponents=" + std::string(bytes));
    auto damaged = AskDistribution(folder, Json::object());
    ASSERT_TRUE(damaged) << damaged.error().Text();
    EXPECT_TRUE(damaged->structured["series"].empty());
    EXPECT_NE(damaged->text.find("damaged"), std::string::npos) << bytes << damaged->text;
  }
  auto without = Call("query_stats", {{"run", "m.db"}, {"metric", "distribution"}}, folder.path());
  ASSERT_FALSE(without);
  EXPECT_NE(without.error().message.find("layers"), std::string::npos);
}

TEST(DistributionTest, ManyTensorsComeByPages) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("many");
  for (int i = 0; i < 20; ++i) {
    db.Layer("l." + std::to_string(i));
    db.Stat(0, i + 1, {.numel = 300});
  }
  std::vector<std::pair<int, int>> counts;
  for (int field = 60; field < 160; ++field) counts.emplace_back(field, field);
  db.Execute("UPDATE tensor_stats SET exponents=x'" + Blob(counts) + "'");
  std::set<std::string> seen;
  std::string cursor;
  int pages = 0;
  do {
    Json more = {{"layers", {"l.*"}}};
    if (!cursor.empty()) more["cursor"] = cursor;
    auto page = AskDistribution(folder, more);
    ASSERT_TRUE(page) << page.error().Text();
    for (const Json& series : page->structured["series"]) {
      EXPECT_TRUE(seen.insert(series["layer"]).second);
    }
    cursor = page->structured.value("next_cursor", "");
    ASSERT_LT(++pages, 30);
  } while (!cursor.empty());
  EXPECT_EQ(seen.size(), 20u);
  EXPECT_GT(pages, 3);
}

}  // namespace
}  // namespace mpnanny::test
