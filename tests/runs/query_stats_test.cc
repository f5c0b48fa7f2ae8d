// query_stats against what a plain loop over all rows gives, on recordings of many kinds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "tests/runs/query_stats_calls.h"
#include "tests/runs/recording.h"

namespace mpnanny::test {
namespace {

double NumberOf(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "inf") return INFINITY;
  if (value == "-inf") return -INFINITY;
  EXPECT_EQ(value, "nan");
  return kNan;
}

// Answers round to six digits.
bool Near(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || a == b || std::fabs(a - b) <= 1e-5 * std::fabs(b);
}

struct RandomRow {
  int64_t step, layer;
  StatSpec spec;
};

// A run of random rows: NULL figures, NaN and Inf, several slots, layers that are not always there.
struct RandomRun {
  std::vector<std::string> names;
  std::vector<RandomRow> rows;

  RandomRun(Recording& db, uint32_t seed, int layers, int samples) {
    std::mt19937 random(seed);
    const auto chance = [&](double p) { return std::bernoulli_distribution(p)(random); };
    const auto figure = [&](double low, double high) {
      return std::exp2(std::uniform_real_distribution<double>(low, high)(random));
    };
    db.Run("random");
    for (int i = 0; i < layers; ++i) {
      names.push_back(i == 0 ? "embed.weight"
                             : "blocks." + std::to_string(i / 3) + ".part" + std::to_string(i % 3));
      db.Layer(names.back());
    }
    for (int sample = 0; sample < samples; ++sample) {
      const int64_t step = sample * 10 + (chance(0.2) ? 3 : 0);
      for (int64_t layer = 1; layer <= layers; ++layer) {
        for (const int64_t kind : {1, 3, 6}) {
          const int slots = chance(0.1) ? 0 : chance(0.3) ? 3 : 1;
          for (int slot = 0; slot < slots; ++slot) {
            StatSpec s;
            s.kind = kind;
            s.slot = slot;
            s.numel = 1000;
            s.absmax = chance(0.05) ? Real() : Real(figure(-20, 20));
            s.absmin = chance(0.05) || !s.absmax ? Real() : Real(*s.absmax * figure(-30, 0));
            s.mean = chance(0.05) ? Real() : Real(chance(0.5) ? figure(-5, 5) : -figure(-5, 5));
            s.rms = s.absmax ? Real(*s.absmax * 0.1) : Real();
            s.zeros = static_cast<int64_t>(random() % 300);
            s.below_fp16 = static_cast<int64_t>(random() % 300);
            if (chance(0.05)) s.nan = chance(0.5) ? 1000 : 7;
            if (chance(0.05)) s.posinf = 5;
            if (chance(0.05)) s.neginf = 2;
            db.Stat(step, layer, s);
            rows.push_back({step, layer, s});
          }
        }
      }
      db.Step(step, {.loss = 1.0, .flags = 64});
    }
  }
};

using Figure = std::optional<double> (*)(const StatSpec&);
double NonFinite(const StatSpec& s) { return static_cast<double>(s.nan + s.posinf + s.neginf); }

struct Reference {
  const char* metric;
  Figure of;
  double (*fold)(double, double);
};
double Larger(double a, double b) { return std::max(a, b); }
double Smaller(double a, double b) { return std::min(a, b); }
double Sum(double a, double b) { return a + b; }
double Hypot(double a, double b) { return std::sqrt(a * a + b * b); }
double Magnitude(double a, double b) { return std::fabs(b) > std::fabs(a) ? b : a; }

const Reference kReferences[] = {
    {"absmax", [](const StatSpec& s) { return s.absmax; }, Larger},
    {"absmin", [](const StatSpec& s) { return s.absmin; }, Smaller},
    {"mean", [](const StatSpec& s) { return s.mean; }, Magnitude},
    {"l2", [](const StatSpec& s) { return s.rms; }, Hypot},  // Recording writes rms as l2
    {"nan", [](const StatSpec& s) { return Real(static_cast<double>(s.nan)); }, Sum},
    {"nonfinite", [](const StatSpec& s) { return Real(NonFinite(s)); }, Sum},
    {"zeros_share", [](const StatSpec& s) { return Real(static_cast<double>(s.zeros) / 1000); },
     Larger},
    {"below_fp16_share",
     [](const StatSpec& s) {
       const double left = 1000 - NonFinite(s) - static_cast<double>(s.zeros);
       return left > 0 ? Real(static_cast<double>(s.below_fp16) / left) : Real();
     },
     Larger},
    {"range",
     [](const StatSpec& s) { return s.absmax && s.absmin ? Real(*s.absmax / *s.absmin) : Real(); },
     Larger},
};

// {series name, kind, slot or -1} -> {step -> value}; NaN, Inf where nothing finite was there.
using Expected = std::map<std::tuple<std::string, int64_t, int64_t>, std::map<int64_t, double>>;

std::string GroupOf(const std::string& grouping, const std::string& name) {
  if (grouping == "step") return "";
  if (grouping != "block") return name;
  return name.starts_with("blocks.") ? name.substr(0, name.find('.', 7)) : "embed";
}

Expected Brute(const RandomRun& run, const Reference& reference, const std::string& grouping) {
  std::map<std::tuple<std::string, int64_t, int64_t, int64_t>, std::vector<StatSpec>> cells;
  for (const RandomRow& row : run.rows) {
    const bool own = grouping == "slot" || row.spec.kind == 6;
    cells[{GroupOf(grouping, run.names[static_cast<size_t>(row.layer - 1)]), row.spec.kind,
           own ? row.spec.slot : -1, row.step}]
        .push_back(row.spec);
  }
  Expected expected;
  for (const auto& [key, specs] : cells) {
    const auto& [name, kind, slot, step] = key;
    std::optional<double> value, bad;
    bool nonfinite = false;
    for (const StatSpec& s : specs) {
      const bool row_bad = NonFinite(s) > 0;
      nonfinite |= row_bad;
      const Real figure = reference.of(s);
      if (figure) {
        value = value ? reference.fold(*value, *figure) : *figure;
      } else if (row_bad && !bad) {
        bad = s.nan > 0 || (s.posinf > 0 && s.neginf > 0) ? kNan
              : s.posinf > 0                              ? INFINITY
                                                          : -INFINITY;
      }
    }
    if (value || bad) expected[{name, kind, slot}][step] = value ? *value : *bad;
  }
  return expected;
}

TEST(QueryStatsTest, EveryFigureAndGroupingIsThatOfAPlainLoop) {
  for (const uint32_t seed : {1, 2}) {
    TempFolder folder;
    Recording db(folder.File("m.db"));
    const RandomRun run(db, seed, seed == 1 ? 7 : 30, 25);
    for (const Reference& reference : kReferences) {
      for (const char* grouping : {"layer", "slot", "block", "step"}) {
        const Expected expected = Brute(run, reference, grouping);
        const Json answer = Ask({{"metric", reference.metric},
                                 {"layers", {"*"}},
                                 {"aggregate", grouping},
                                 {"max_points", 2000}},
                                folder, SIZE_MAX);
        SCOPED_TRACE(std::string(reference.metric) + " by " + grouping);
        ASSERT_EQ(answer["series"].size(), expected.size());
        EXPECT_EQ(answer["total"], expected.size());
        EXPECT_EQ(answer["omitted"], 0);
        EXPECT_EQ(answer["steps"]["all"], true);
        for (const Json& series : answer["series"]) {
          const std::string name = series["layer"].is_null() ? "" : series["layer"];
          const std::string kind = series["kind"];
          const int64_t number = kind == "activation" ? 1 : kind == "gradient" ? 3 : 6;
          const auto found = expected.find({name, number, series.value("slot", int64_t{-1})});
          ASSERT_NE(found, expected.end()) << name << " " << kind;
          ASSERT_EQ(series["points"].size(), found->second.size()) << name;
          auto want = found->second.begin();
          for (const Json& point : series["points"]) {
            EXPECT_EQ(point[0], want->first);
            EXPECT_TRUE(Near(NumberOf(point[1]), want->second)) << point << " " << want->second;
            ++want;
          }
        }
      }
    }
  }
}

TEST(QueryStatsTest, TopAndOrderAreThoseOfASort) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  const RandomRun run(db, 7, 40, 12);
  const Expected expected = Brute(run, kReferences[0], "layer");
  for (const std::string order : {"largest", "smallest", "worst"}) {
    std::vector<double> extremes;
    for (const auto& [key, points] : expected) {
      std::optional<double> extreme;
      for (const auto& [step, value] : points) {
        if (!std::isfinite(value)) continue;
        if (!extreme || (order == "smallest" ? value < *extreme : value > *extreme))
          extreme = value;
      }
      ASSERT_TRUE(extreme);
      extremes.push_back(*extreme);
    }
    std::sort(extremes.begin(), extremes.end());
    if (order != "smallest") std::reverse(extremes.begin(), extremes.end());
    const Json answer = Ask({{"top", 6},
                             {"order", order},
                             {"max_points", 2000},
                             {"kinds", {"activation", "gradient", "optimizer_state"}}},
                            folder, SIZE_MAX);
    ASSERT_EQ(answer["series"].size(), 6u);
    for (size_t i = 0; i < 6; ++i) {
      double extreme = kNan;
      for (const Json& point : answer["series"][i]["points"]) {
        const double value = NumberOf(point[1]);
        if (!std::isfinite(value)) continue;
        if (std::isnan(extreme) || (order == "smallest" ? value < extreme : value > extreme)) {
          extreme = value;
        }
      }
      EXPECT_TRUE(Near(extreme, extremes[i])) << order << " " << i;
    }
  }
}

TEST(QueryStatsTest, TheLargestAreNeitherOptimizerStatesNorNotFinite) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("largest");
  db.Layer("sound");
  db.Layer("broken");
  for (int64_t step = 0; step < 3; ++step) {
    db.Stat(step, 1, {.absmax = 2.0});
    db.Stat(step, 1, {.kind = 6, .slot = 1, .absmax = 500.0});
    db.Stat(step, 2, {.numel = 4, .nan = 4, .absmax = {}});
  }
  const Json answer = Ask({{"top", 1}}, folder);
  EXPECT_EQ(answer["series"][0]["layer"], "sound");
  EXPECT_EQ(answer["series"][0]["kind"], "activation");
  const std::string notes = DumpJson(answer["notes"]);
  EXPECT_NE(notes.find("1 tensor is left out: nothing in it was finite"), std::string::npos)
      << notes;
  EXPECT_NE(notes.find("broken activation"), std::string::npos) << notes;
  EXPECT_NE(notes.find("Optimizer states are left out"), std::string::npos) << notes;
  const Json states = Ask({{"top", 1}, {"kinds", {"optimizer_state"}}}, folder);
  EXPECT_EQ(states["series"][0]["worst"]["value"], 500.0);
  const Json largest = Ask({{"top", 9}}, folder);
  EXPECT_EQ(largest["series"].size(), 1u);
  EXPECT_EQ(Ask({}, folder)["total"], 2);  // who asks for no number sees what is not finite, too
  EXPECT_EQ(Ask({{"layers", {"*"}}}, folder)["total"], 3);  // who names layers sees all of them
}

TEST(QueryStatsTest, TenSeriesWhereNobodyNamesLayersOrANumber) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("many");
  for (int layer = 1; layer <= 17; ++layer) db.Layer("l" + std::to_string(layer));
  for (int64_t step = 0; step < 3; ++step) {
    for (int64_t layer = 1; layer <= 17; ++layer) {
      db.Stat(step, layer, {.absmax = static_cast<double>(layer)});
    }
  }
  const Json answer = Ask(Json::object(), folder);
  EXPECT_EQ(answer["series"].size(), 10u);
  EXPECT_EQ(answer["series"][0]["layer"], "l17");
  EXPECT_NE(DumpJson(answer["notes"]).find("The first 10 of 17 series"), std::string::npos)
      << answer["notes"];
  EXPECT_EQ(Ask({{"layers", {"*"}}}, folder, SIZE_MAX)["series"].size(), 17u);
  EXPECT_EQ(Ask({{"top", 12}}, folder, SIZE_MAX)["series"].size(), 12u);
}

TEST(QueryStatsTest, FastestGrowthComesFirst) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("growth");
  for (int layer = 1; layer <= 20; ++layer) db.Layer("l" + std::to_string(layer));
  for (int64_t step = 0; step < 40; ++step) {
    for (int64_t layer = 1; layer <= 20; ++layer) {
      const double rate = layer == 13 ? 1.2 : layer == 4 ? 0.8 : 1.0;
      db.Stat(step, layer, {.absmax = 100.0 * std::pow(rate, static_cast<double>(step))});
    }
  }
  const Json answer = Ask({{"top", 1}, {"order", "growth"}}, folder);
  ASSERT_EQ(answer["series"].size(), 1u);
  EXPECT_EQ(answer["series"][0]["layer"], "l13");
  // Medians of five points 35 steps apart.
  EXPECT_NEAR(answer["series"][0]["growth"].get<double>(), std::pow(1.2, 35), 1.0);
}

TEST(QueryStatsTest, PagesHoldEverySeriesOnceInOneOrder) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  const RandomRun run(db, 3, 40, 30);
  for (const std::string order : {"worst", "model", "growth"}) {
    std::vector<std::string> whole, paged;
    const auto add = [](const Json& answer, std::vector<std::string>& to) {
      for (const Json& series : answer["series"]) {
        to.push_back(series["layer"].get<std::string>() + " " + series["kind"].get<std::string>() +
                     " " + std::to_string(series.value("slot", -1)));
      }
    };
    add(Ask({{"order", order}, {"layers", {"*"}}}, folder, SIZE_MAX), whole);
    std::string cursor;
    int pages = 0;
    do {
      Json arguments = {{"order", order}, {"layers", {"*"}}};
      if (!cursor.empty()) arguments["cursor"] = cursor;
      const Json page = Ask(arguments, folder);
      EXPECT_EQ(page["total"], whole.size());
      add(page, paged);
      cursor = page.value("next_cursor", "");
      ASSERT_LT(++pages, 100);
    } while (!cursor.empty());
    EXPECT_EQ(paged, whole) << order;
    EXPECT_GT(pages, 2);
  }
  EXPECT_NE(Refused({{"cursor", "gone"}}, folder).message.find("cursor"), std::string::npos);
}

TEST(QueryStatsTest, LongRunsKeepExtremesAndSayWhatWasNotLookedAt) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("long");
  db.Execute("UPDATE run SET trace_interval=10; BEGIN");
  for (int i = 0; i < 3; ++i) db.Layer("l" + std::to_string(i));
  const int64_t samples = 4000, spike = 27'130, origin = 35'550;
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t step = i * 10;
    for (int64_t layer = 1; layer <= 3; ++layer) {
      const double smooth = 10 + std::sin(static_cast<double>(i) / 600);
      const bool bad = layer == 2 && step >= origin;
      db.Stat(step, layer,
              {.nan = bad ? 3 : 0, .absmax = step == spike && layer == 2 ? 6e4 : smooth});
    }
  }
  db.Alert(spike, {.type = "OVERFLOW", .layer = 2});
  db.Execute("COMMIT");
  const Json answer = Ask({{"layers", {"l1"}}}, folder);
  EXPECT_EQ(answer["steps"]["all"], false);
  EXPECT_EQ(answer["steps"]["recorded"], samples);
  const int64_t looked_at = answer["steps"]["looked_at"];
  EXPECT_LT(looked_at, 600);
  const Json& series = answer["series"][0];
  EXPECT_EQ(series["worst"], (Json{{"step", spike}, {"value", 60000}}));  // there was an alert
  EXPECT_EQ(series["nonfinite"]["first_step"], origin);  // every sample near it was read
  EXPECT_EQ(answer["omitted"], samples - static_cast<int64_t>(series["points"].size()));
  EXPECT_NE(DumpJson(answer["notes"]).find("Not every step"), std::string::npos);
  bool shown = false;
  for (const Json& point : series["points"]) shown |= point[0] == spike && point[1] == 60000;
  EXPECT_TRUE(shown);

  const Json full = Ask({{"layers", {"l1"}}, {"detail", "full"}}, folder, 64'000);
  EXPECT_EQ(full["steps"]["all"], true);
  EXPECT_EQ(full["series"][0]["looked_at"], samples);
  EXPECT_EQ(full["series"][0]["nonfinite"]["samples"], samples - origin / 10);
  EXPECT_EQ(full["series"][0]["nonfinite"]["last_step"], (samples - 1) * 10);
  EXPECT_EQ(full["series"][0]["points"].front()[0], 0);
  EXPECT_EQ(full["series"][0]["points"].back()[0], (samples - 1) * 10);

  // A narrow range is read whole.
  const Json narrow = Ask({{"layers", {"l2"}}, {"steps", "1000..2000"}}, folder);
  EXPECT_EQ(narrow["steps"]["all"], true);
  EXPECT_EQ(narrow["series"][0]["looked_at"], 101);
}

TEST(QueryStatsTest, StepsThatAreNotWhereTheIntervalPutsThem) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("odd");
  db.Layer("l");
  db.Execute("UPDATE run SET trace_interval=100; BEGIN");
  for (int64_t i = 0; i < 2'000; ++i) {
    db.Stat(i * 50 + 7, 1, {.absmax = i == 1'999 ? 500.0 : 1.0});
  }
  db.Execute("COMMIT");
  const Json answer = Ask({{"layers", {"l"}}}, folder);
  EXPECT_EQ(answer["steps"]["all"], false);
  EXPECT_GT(answer["series"][0]["looked_at"].get<int64_t>(), 200);
  EXPECT_EQ(answer["series"][0]["worst"]["value"], 500);
}

}  // namespace
}  // namespace mpnanny::test
