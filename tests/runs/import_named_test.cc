// Numbers that logs print under names of their own: kept as printed, by every format, and read back
// as series over steps.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engines/runs/import/named_numbers.h"
#include "engines/runs/named_figures.h"
#include "tests/runs/import_files.h"
#include "tests/runs/run_tools.h"

namespace mpnanny::test {
namespace {

using runs::FigureSeries;

std::string Shown(double value) {
  std::string text = std::to_string(value);
  while (text.find('.') != std::string::npos && (text.back() == '0' || text.back() == '.')) {
    const bool point = text.back() == '.';
    text.pop_back();
    if (point) break;
  }
  return text;
}

// "a=1 b=2.5" of a line.
std::string NumbersOf(std::string_view line) {
  std::vector<imports::NamedNumber> numbers;
  imports::ReadNamedNumbers(line, numbers);
  std::string text;
  for (const auto& [name, value] : numbers) {
    text += (text.empty() ? "" : " ") + std::string(name) + "=" + Shown(value);
  }
  return text;
}

runs::Source Open(const TempFolder& folder, const std::string& handle) {
  const auto roots = AllowedRoots::Create({folder.path()});
  auto source = runs::OpenRun(handle, *roots, {});
  EXPECT_TRUE(source) << (source ? "" : source.error().Text());
  return source ? *std::move(source) : runs::Source();
}

FigureSeries Figure(const runs::Source& source, std::string_view name) {
  auto series = runs::ReadFigure(source, name);
  EXPECT_TRUE(series) << (series ? "" : series.error().Text());
  return series ? *std::move(series) : FigureSeries();
}

TEST(NamedNumbersTest, WhatALinePrints) {
  const std::pair<const char*, const char*> kLines[] = {
      {"{'loss': 2.5, 'rewards/mean': -0.25, 'epoch': 0.5}",
       "loss=2.5 rewards/mean=-0.25 epoch=0.5"},
      {"step:12 - actor/pg_loss:0.5 - val-core/gsm8k/reward/mean@1:0.75 - perf/mfu/actor:0.125",
       "step=12 actor/pg_loss=0.5 val-core/gsm8k/reward/mean@1=0.75 perf/mfu/actor=0.125"},
      {"step:1 - actor/kl:np.float64(0.5) - n:np.int64(3) - t:tensor(0.25)",
       "step=1 actor/kl=0.5 n=3 t=0.25"},
      {" [2024-11-05 12:00:01] iteration 10/ 100 | consumed samples: 2560 | elapsed time per "
       "iteration (ms): 1041.5 | lm loss: 2.5E+00 |",
       "consumed samples=2560 elapsed time per iteration (ms)=1041.5 lm loss=2.5"},
      {"| epoch 3 | loss 2.5 | ppl 5.66 | wps 1200 | clip 0",
       "epoch=3 loss=2.5 ppl=5.66 wps=1200 "
       "clip=0"},
      {"step:  1  loss: 12.5  grad_norm:  1.5  memory:  4.25GiB(4.49%)  tps: 1,234  mfu: 12.5%",
       "step=1 loss=12.5 grad_norm=1.5 memory=4.25 tps=1234 mfu=12.5"},
      {"iter 10: loss 2.5, time 100.5ms, mfu 3%", "iter=10 loss=2.5 time=100.5 mfu=3"},
      {"step=7, skipped=0, lr=[0.5, 0.25], mom=[[0.9, 0.99]]", "step=7 skipped=0 lr=0.5"},
      {"reward=nan kl=-inf loss nan", "reward=nan kl=-inf loss=nan"},
      // No figures: clocks, dates, addresses, places in code, sentences, words that begin so.
      {"INFO 12:01:02 at 10.0.0.1:80 model.py:12: saved in 3.5 s, rank 0 of 8, eta: 1:02:03", ""},
      {"date: 2024-01-02 id: 3d_conv x: 12ab4 v: 1.2.3 tokens: 1.2M host:inference", ""},
      {"Steps:  67%|####| 1998/3000 [00:01<00:10, 1.25it/s, loss=0.5]", "loss=0.5"},
      {"INFO loss: 0.5", "loss=0.5"},
      {"Epoch done. train loss: 0.5", "train loss=0.5"},
  };
  for (const auto& [line, expected] : kLines) {
    EXPECT_EQ(NumbersOf(line), expected) << line;
    // Cut anywhere, it ends.
    for (size_t i = 0; i < std::string_view(line).size(); ++i) {
      NumbersOf(std::string_view(line).substr(0, i));
    }
  }
}

TEST(NamedFiguresTest, PartsHoldAnyStepAndAnyNumber) {
  const double inf = std::numeric_limits<double>::infinity();
  const FigureSeries points = {
      {0, 0.5}, {-7, inf}, {INT64_MAX, -inf}, {INT64_MIN, 1e-310}, {3, -0.0}};
  std::string part;
  int64_t last = 0;
  for (const auto& [step, value] : points) runs::AppendPoint(part, last, step, value);
  FigureSeries read;
  EXPECT_TRUE(runs::ReadPoints(part, read));
  EXPECT_EQ(read, points);
  for (size_t i = 0; i < part.size(); ++i) {
    FigureSeries cut;
    runs::ReadPoints(std::string_view(part).substr(0, i), cut);
    ASSERT_LT(cut.size(), points.size());
    EXPECT_TRUE(std::equal(cut.begin(), cut.end(), points.begin()));
  }
  FigureSeries none;
  EXPECT_FALSE(runs::ReadPoints(std::string(20, '\xff'), none));
}

TEST(NamedFiguresTest, EveryFormatKeepsThem) {
  TempFolder folder;
  folder.Write("a.log",
               "step 1 loss 2.5 Reward/Mean=0.5\nstep 2 loss 2.25 Reward/Mean=nan\n"
               "step 3 loss 2.0 Reward/Mean=1.5\n");
  folder.Write("b.jsonl",
               "{\"step\": 1, \"loss\": 2.5, \"Reward\": {\"Mean\": 0.5}}\n"
               "{\"step\": 2, \"loss\": 2.25, \"Reward\": {\"Mean\": NaN}}\n"
               "{\"step\": 3, \"loss\": 2.0, \"Reward\": {\"Mean\": \"1.5\"}}\n");
  folder.Write("c.csv", "step,loss,Reward/Mean,note\n1,2.5,0.5,x\n2,2.25,nan,x\n3,2.0,1.5,x\n");
  folder.Write("d.json",
               "{\"log_history\": [{\"step\": 1, \"loss\": 2.5, \"Reward/Mean\": 0.5},"
               "{\"step\": 2, \"loss\": 2.25, \"Reward/Mean\": NaN},"
               "{\"step\": 3, \"loss\": 2.0, \"Reward/Mean\": 1.5}]}");
  folder.Write("e.csv",
               "wall_time,tag,step,value\n1,loss,1,2.5\n1,Reward/Mean,1,0.5\n1,loss,2,2.25\n"
               "1,Reward/Mean,2,nan\n1,loss,3,2.0\n1,Reward/Mean,3,1.5\n");
  folder.Write("events.out.tfevents.1.a",
               Scalar("loss", 1, 2.5F) + Scalar("Reward/Mean", 1, 0.5F) + Scalar("loss", 2, 2.25F) +
                   Scalar("Reward/Mean", 2, NAN) + Scalar("loss", 3, 2.0F) +
                   Scalar("Reward/Mean", 3, 1.5F));
  folder.Write("run-1.wandb", WandbFile({History(1, {{"loss", "2.5"}, {"Reward/Mean", "0.5"}}),
                                         History(2, {{"loss", "2.25"}, {"Reward/Mean", "\"NaN\""}}),
                                         History(3, {{"loss", "2.0"}, {"Reward/Mean", "1.5"}})}));
  for (const char* file :
       {"a.log", "b.jsonl", "c.csv", "d.json", "e.csv", "events.out.tfevents.1.a", "run-1.wandb"}) {
    const runs::Source source = Open(folder, file);
    const FigureSeries reward = Figure(source, "Reward/Mean");
    ASSERT_EQ(reward.size(), 3u) << file;
    EXPECT_EQ(reward[0], (std::pair<int64_t, double>(1, 0.5))) << file;
    EXPECT_EQ(reward[1].first, 2) << file;
    EXPECT_TRUE(std::isnan(reward[1].second)) << file;
    EXPECT_EQ(reward[2].second, 1.5) << file;
    EXPECT_EQ(Figure(source, "loss"), (FigureSeries{{1, 2.5}, {2, 2.25}, {3, 2.0}})) << file;
    EXPECT_TRUE(Figure(source, "reward/mean").empty()) << file << ": names are exact";
    const auto names = runs::ReadFigureNames(source);
    ASSERT_TRUE(names);
    ASSERT_EQ(names->size(), 2u) << file;
    for (const runs::FigureName& name : *names) {
      EXPECT_EQ(name.count, 3) << file;
      EXPECT_EQ(name.first_step, 1) << file;
      EXPECT_EQ(name.last_step, 3) << file;
    }
  }
}

TEST(NamedFiguresTest, AResumedRunKeepsBothWays) {
  TempFolder folder;
  std::string log;
  const auto line = [](int64_t step, double reward) {
    return "step " + std::to_string(step) + " loss 1.5 reward=" + std::to_string(reward) + "\n";
  };
  for (int64_t step = 1; step <= 100; ++step) log += line(step, 1);
  for (int64_t step = 61; step <= 70; ++step) log += line(step, 2);
  folder.Write("a.log", log);
  const FigureSeries now = Figure(Open(folder, "a.log"), "reward");
  ASSERT_EQ(now.size(), 70u);
  EXPECT_EQ(now[59].second, 1);
  EXPECT_EQ(now[60].second, 2);
  const FigureSeries before = Figure(Open(folder, "a.log#2"), "reward");
  ASSERT_EQ(before.size(), 100u);
  EXPECT_EQ(before.back().second, 1);
}

TEST(NamedFiguresTest, AnEvaluationsFiguresKeepApartFromTheTrainings) {
  TempFolder folder;
  folder.Write("a.log",
               "step 5 loss 1.5 acc=0.5\nvalidation: loss 2.5 acc=0.25\nstep 6 loss 1.25\n");
  folder.Write("b.jsonl",
               "{\"mode\": \"train\", \"step\": 5, \"loss\": 1.5, \"acc\": 0.5}\n"
               "{\"mode\": \"val\", \"step\": 5, \"loss\": 2.5, \"acc\": 0.25}\n");
  EXPECT_EQ(Figure(Open(folder, "a.log"), "acc"), (FigureSeries{{5, 0.5}}));
  EXPECT_EQ(Figure(Open(folder, "a.log"), "eval/acc"), (FigureSeries{{5, 0.25}}));
  EXPECT_EQ(Figure(Open(folder, "b.jsonl"), "acc"), (FigureSeries{{5, 0.5}}));
  EXPECT_EQ(Figure(Open(folder, "b.jsonl"), "val/acc"), (FigureSeries{{5, 0.25}}));
}

TEST(NamedFiguresTest, NamesAreBoundedAndFiguresOfATrainingComeFirst) {
  TempFolder folder;
  std::string log = "step 1";
  for (int i = 0; i < 500; ++i) log += " name" + std::to_string(i) + "=1";
  folder.Write("a.log", log + " loss=2.5 loss_scale=8 odd=1\nstep 2 loss=2.25\n");
  const runs::Source source = Open(folder, "a.log");
  const auto names = runs::ReadFigureNames(source);
  ASSERT_TRUE(names);
  EXPECT_EQ(names->size(), runs::kMostFigureNames + 2);
  EXPECT_EQ(Figure(source, "loss").size(), 2u);
  EXPECT_EQ(Figure(source, "loss_scale").size(), 1u);
  bool told = false;
  for (const std::string& note : source.notes) {
    told = told || note.find("301 others were left out") != std::string::npos;
  }
  EXPECT_TRUE(told);
}

TEST(NamedFiguresTest, QueryStatsShowsOne) {
  TempFolder folder;
  folder.Write("a.log", "step 1 loss 2.5 KL=0.5\nstep 2 loss 2.25 KL=0.75\nstep 3 loss 2 KL=inf\n");
  const Json asked = {{"run", folder.File("a.log")}, {"metric", "log:kl"}};
  const auto answer = Call("query_stats", asked, folder.path());
  ASSERT_TRUE(answer) << answer.error().Text();
  EXPECT_EQ(answer->structured["metric"], "log:KL");
  EXPECT_EQ(answer->structured["series"][0]["points"],
            Json::parse(R"([[1, 0.5], [2, 0.75], [3, "inf"]])"));
  const auto miss =
      Call("query_stats", {{"run", folder.File("a.log")}, {"metric", "log:KLx"}}, folder.path());
  ASSERT_FALSE(miss);
  EXPECT_NE(miss.error().Text().find("KL"), std::string::npos);
}

TEST(NamedFiguresTest, AMonitorsRecordHasNone) {
  TempFolder folder;
  {
    Recording recording(folder.File("metrics.db"));
    recording.Run("demo");
    recording.Step(1, {.loss = 2.5});
  }
  const runs::Source source = Open(folder, "metrics.db");
  EXPECT_TRUE(runs::ReadFigureNames(source)->empty());
  EXPECT_TRUE(runs::ReadFigure(source, "loss")->empty());
}

}  // namespace
}  // namespace mpnanny::test
