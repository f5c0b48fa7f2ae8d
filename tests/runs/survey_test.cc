// Which records of a log are its steps (engines/runs/import/survey.h), and where another run
// begins.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/runs/import_files.h"

namespace mpnanny::test {
namespace {

ReadLog Surveyed(const std::string& text) {
  TempFolder folder;
  folder.Write("train.log", text);
  return ReadAsRun(folder, "train.log");
}

bool NotesSay(const ReadLog& log, const std::string& words) {
  return log.notes.find(words) != std::string::npos;
}

std::string StepLine(int64_t step, double loss, const std::string& more = "") {
  return "step " + std::to_string(step) + " | loss " + std::to_string(loss) + more + "\n";
}

// Records of another shape, and what stands once, are no steps.
TEST(SurveyTest, RecordsOfOneShapeAreTheSteps) {
  std::string text = "loss_weights: [0.1, 10]\nmax_grad_norm: 1.0\nlog_every_step: 50\n";
  for (int step = 10; step <= 100; step += 10) {
    text += StepLine(step, 5 - 0.02 * step, " | gnorm 0.7");
    if (step % 50 == 0) {
      text += "{\"epoch\": 1, \"train_loss\": 4.4, \"train_gnorm\": 0.9, \"train_num_updates\": " +
              std::to_string(step + 1) + "}\n";
    }
  }
  const ReadLog log = Surveyed(text + "train_loss: 3.9\n");
  ASSERT_EQ(log.steps.size(), 10u) << log.notes;
  EXPECT_EQ(log.steps[0].step, 10);
  EXPECT_EQ(log.steps[0].loss, 4.8);
  EXPECT_EQ(log.steps[9].step, 100);
  EXPECT_EQ(log.steps[9].grad_norm, 0.7);
  EXPECT_TRUE(NotesSay(log, "are no steps of it")) << log.notes;
}

// A NaN counts wherever it stands; "inf" that stands for none yet does not.
TEST(SurveyTest, ALossThatIsNanCountsInAnyRecord) {
  std::string text = "min_loss: inf\n";
  for (int step = 1; step <= 9; ++step) text += StepLine(step, 5 - 0.1 * step);
  EXPECT_FALSE(Surveyed(text).steps.back().flags & (runs::kLossNan | runs::kLossInf));
  const ReadLog nan = Surveyed(text + "final loss: nan\n");
  EXPECT_TRUE(nan.steps.back().flags & runs::kLossNan) << nan.notes;
}

// The norm of one parameter, a bound and a setting are no gradient norm.
TEST(SurveyTest, OnlyTheTotalIsTheGradientNorm) {
  const auto norm = [](const std::string& name) {
    std::string text;
    for (int step = 1; step <= 5; ++step) text += StepLine(step, 3, " | " + name + ": 0.5");
    return Surveyed(text).steps.back().grad_norm.has_value();
  };
  for (const char* name :
       {"grad_norm", "gnorm", "total_grad_norm", "global_norm", "actor/grad_norm",
        "unclipped_grad_l2", "optim/total_grad_norm", "gradients/norm"}) {
    EXPECT_TRUE(norm(name)) << name;
  }
  for (const char* name : {"grad/norm_gamma", "max_grad_norm", "output_proj_grad_l1_norm",
                           "grad_norm/layers.0.weight", "clip_grad_norm", "layer_3/grad_norm"}) {
    EXPECT_FALSE(norm(name)) << name;
  }
}

TEST(SurveyTest, RunsThatFollowEachOtherAreKeptApart) {
  const auto run = [](int steps) {
    std::string text = "starting\n";
    for (int step = 0; step <= steps; step += 20)
      text += StepLine(step, 2 + 6 * std::exp(-step / 200.0));
    return text;
  };
  const ReadLog log = Surveyed(run(2000) + run(500) + run(3000));
  EXPECT_EQ(log.steps.size(), 151u) << log.notes;
  EXPECT_TRUE(NotesSay(
      log, "is read as 3 runs one after another (their figures begin at lines 2, 104, 131)"))
      << log.notes;
  EXPECT_FALSE(NotesSay(log, "goes back")) << log.notes;
}

// An epoch's counter begins anew as well, and the loss goes on.
TEST(SurveyTest, EpochsAreOneRun) {
  std::string text, named;
  double loss = 8;
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (int step = 0; step < 300; step += 10) {
      loss *= 0.99;
      text += StepLine(step, loss);
      named += "Epoch: [" + std::to_string(epoch) + "][" + std::to_string(step) + "]\tLoss " +
               std::to_string(loss) + "\n";
    }
  }
  for (const std::string& each : {text, named}) {
    const ReadLog log = Surveyed(each);
    EXPECT_EQ(log.steps.size(), 90u) << log.notes;
    EXPECT_FALSE(NotesSay(log, "runs one after another")) << log.notes;
  }
  // The epoch goes back as well: another run.
  EXPECT_TRUE(NotesSay(Surveyed(named + named), "is read as 2 runs one after another"));
}

TEST(SurveyTest, EveryGoingBackIsCounted) {
  std::string text = StepLine(20, 8.56) + StepLine(20, 8.55) + StepLine(40, 7.9) +
                     StepLine(20, 8.5) + StepLine(40, 7.9);
  for (int step = 60; step <= 600; step += 20) text += StepLine(step, 7 - step / 200.0);
  const ReadLog log = Surveyed(text + StepLine(560, 4.2) + StepLine(580, 4.1) + StepLine(600, 4));
  EXPECT_TRUE(NotesSay(log, "goes back to an earlier step 3 times")) << log.notes;
  EXPECT_EQ(log.steps.size(), 30u);
}

TEST(SurveyTest, StepsInTheirOtherForms) {
  const auto last = [](const std::string& before, const std::string& after) {
    std::string text;
    for (int step = 50; step <= 250; step += 50) {
      text += before + std::to_string(step) + after + " loss: " + std::to_string(3 - step * 0.004) +
              "\n";
    }
    const ReadLog log = Surveyed(text);
    return log.steps.empty() ? -1 : log.steps.back().step;
  };
  EXPECT_EQ(last("Epoch:[1/1](", "/56608),"), 250);
  EXPECT_EQ(last("Epoch 3/10 - batch ", "/469 -"), 250);
  EXPECT_EQ(last("[epoch 3] [batch ", "/500]"), 250);
  EXPECT_EQ(last("Epoch: [2][", "]"), 250);
  EXPECT_EQ(last("[3/300][", "/1251]"), 250);
  EXPECT_EQ(last("", "/469 [==>..] - ETA: 3s -"), 250);
  EXPECT_EQ(last("Epoch [0/50] Batch [", "/469]"), 250);
  EXPECT_EQ(last("TRAIN Batch ", "/469,"), 250);
  EXPECT_EQ(last("batch i:", ", length: 3"), 250);
  EXPECT_EQ(last("took 3 s, ", " images"), 4) << "no step: counted from 0";
}

// Tables of two columns, one a step.
TEST(SurveyTest, TablesThatAreDrawn) {
  std::string box, plain;
  for (int step = 0; step < 6; ++step) {
    const std::string loss = std::to_string(2 - 0.1 * step);
    box += "      Step " + std::to_string(step) +
           "\n┏━━━━━━━┳━━━━━━━┓\n┃ Metric ┃ Value ┃\n┡━━━━━━━╇━━━━━━━┩\n│ train/loss │ " + loss +
           " │\n│ env/reward │ 0.5 │\n│ a name that is c… │ 7.0 │\n└───────┴───────┘\nprose\n";
    plain += "+------+-----+\n| train/ |   |\n|    loss | " + loss + " |\n|    iterations | " +
             std::to_string(step) + " |\n+------+-----+\n";
  }
  for (const std::string& text : {box, plain}) {
    const ReadLog log = Surveyed(text);
    ASSERT_EQ(log.steps.size(), 6u) << log.notes;
    EXPECT_EQ(log.steps.back().step, 5);
    EXPECT_EQ(log.steps.back().loss, 1.5);
  }
}

// A first word says whose a line is; a figure of that name does not.
TEST(SurveyTest, TaggedLinesAreEvaluations) {
  std::string text, figures;
  for (int batch = 0; batch < 40; ++batch) {
    const std::string loss = std::to_string(5 - 0.05 * batch);
    const std::string line = "05:26:40 - INFO - main -   TRAIN Batch " + std::to_string(batch) +
                             "/40, Loss    " + loss + "\n";
    text += line;
    figures += "step " + std::to_string(batch) + " - val acc 0.5 - loss " + loss + "\n";
    if (batch % 10 == 9) {
      text += "05:26:40 - INFO - main -   VALID Batch 1/5, Loss    9.5\n[测试] loss 9.5\n" +
              std::string("TEST in epoch3, loss = 9.5, acc = 49.3%\n");
    }
  }
  const ReadLog log = Surveyed(text);
  ASSERT_EQ(log.steps.size(), 40u) << log.notes;
  EXPECT_EQ(log.steps.back().step, 39);
  EXPECT_LT(log.steps.back().loss, 4.0);
  EXPECT_TRUE(NotesSay(log, ", 12 read)")) << log.notes;
  EXPECT_TRUE(NotesSay(log,
                       "a loss, a gradient norm, a rate or a loss scale was read from 52 of 52 "
                       "lines that are not empty"))
      << log.notes;
  EXPECT_EQ(Surveyed(figures).steps.size(), 40u);
}

// Two counters that alternate are a training and its evaluations; one whose total grows is not.
TEST(SurveyTest, CountersThatAlternateAreTrainingAndEvaluation) {
  std::string text, grows, setting = "| val_loss_every        | 250 |\nval loss nan\n";
  for (int step = 1; step < 9; ++step) setting += StepLine(step, 3);
  EXPECT_TRUE(NotesSay(Surveyed(setting), ", 1 read)")) << Surveyed(setting).notes;
  for (int epoch = 1; epoch <= 4; ++epoch) {
    text += "Epoch " + std::to_string(epoch) + "/4\n";
    for (int step = 10; step <= 60; step += 10) {
      text += "step  " + std::to_string(step) + "/60 - loss: 0.2\n";
      grows += "[epoch: " + std::to_string(epoch) + "/4, iter: " + std::to_string(step) + "/" +
               std::to_string(60 + epoch) + "] total: 1.5\n";
    }
    text += "step 5/8 - loss: 0.9\nstep 8/8 - loss: 0.9\n";
  }
  const ReadLog log = Surveyed(text);
  EXPECT_EQ(log.steps.size(), 24u) << log.notes;
  EXPECT_TRUE(NotesSay(log, ", 8 read)")) << log.notes;
  EXPECT_FALSE(NotesSay(log, "runs one after another")) << log.notes;
  EXPECT_EQ(Surveyed(grows).steps.size(), 24u);
}

TEST(SurveyTest, StepsInThousandsAreCountedOn) {
  std::string text;
  for (int step = 200; step <= 8000; step += 200) {
    text +=
        "step:" + (step < 1000 ? std::to_string(step) : std::to_string((step + 500) / 1000) + "K") +
        " loss:" + std::to_string(3 - step / 4000.0) + "\n";
  }
  const ReadLog log = Surveyed(text);
  ASSERT_EQ(log.steps.size(), 40u) << log.notes;
  EXPECT_EQ(log.steps.back().step, 8000);
  EXPECT_FALSE(NotesSay(log, "runs one after another")) << log.notes;
}

// Output that was held back: the records of steps 10 to 50 behind the bar of step 50.
TEST(SurveyTest, RecordsBehindABarHaveStepsOfTheirOwn) {
  std::string text;
  for (int step = 1; step <= 100; ++step) {
    text += "\r 10%|# | " + std::to_string(step) + "/100 [00:10<01:00, 1.00it/s]";
    if (step % 50 != 0) continue;
    for (int of = step - 40; of <= step; of += 10) {
      text += "{'loss': " + std::to_string(2 - of / 100.0) +
              ", 'grad_norm': 0.3, 'epoch': " + std::to_string(of / 80.0).substr(0, 4) + "}\n";
    }
    text += "\r 50%|# | 2/4 [00:01<00:01, 1.00it/s]\r 75%|# | 3/4 [00:01<00:01, 1.00it/s]";
  }
  const ReadLog log = Surveyed(text);
  ASSERT_EQ(log.steps.size(), 10u) << log.notes;
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(log.steps[i].step, 10 * static_cast<int64_t>(i + 1)) << i;
  }
  EXPECT_EQ(log.steps.back().loss, 1.0);
}

// Loops of one length are all epochs or all runs, whatever the loss of a single one does.
TEST(SurveyTest, LoopsOfOneLengthAreAllTheSame) {
  std::string text;
  for (int loop = 0; loop < 12; ++loop) {
    const double start = loop / 2 % 2 == 0 ? 20 : 8;
    for (int step = 0; step < 10; ++step) text += StepLine(step, start * (1 - 0.03 * step));
  }
  const ReadLog log = Surveyed(text);
  EXPECT_TRUE(NotesSay(log, "is read as 12 runs")) << log.notes;
}

// Sentences say figures as well; one that is not finite has to be understood whole.
TEST(SurveyTest, AFigureInASentence) {
  std::string text;
  for (int step = 25; step <= 250; step += 25) {
    text += "Epoch 0, Step " + std::to_string(step) +
            ", total used time 7.2 (s), avg loss so far is " + std::to_string(2 - 0.004 * step) +
            "\n";
  }
  text += "Epoch 0, val loss is 1.25, val mse is 0.013.\nStop if the loss is nan\n";
  const ReadLog log = Surveyed(text);
  ASSERT_EQ(log.steps.size(), 10u) << log.notes;
  EXPECT_EQ(log.steps.back().loss, 1.0);
  EXPECT_FALSE(log.steps.back().flags & runs::kLossNan);
  EXPECT_TRUE(NotesSay(log, "(\"val loss\", 1 read): 1.25")) << log.notes;
}

// What a logger prints behind the bar of an evaluation is a record of its own.
TEST(SurveyTest, ARecordBehindTheBarOfAnEvaluation) {
  std::string text;
  for (int epoch = 0; epoch < 8; ++epoch) {
    text += "Validation: 100%|##| 8/8 [00:01<00:00, 9.1it/s] 12:04:11 INFO  Epoch " +
            std::to_string(epoch) + ": v_kl 0.3  loss " + std::to_string(2 - 0.1 * epoch) + "\n";
  }
  const ReadLog log = Surveyed(text);
  ASSERT_EQ(log.steps.size(), 8u) << log.notes;
  EXPECT_EQ(log.steps[3].loss, 1.7);
}

TEST(SurveyTest, WhatIsUnscaledIsNoLossScale) {
  std::string text;
  for (int step = 1; step <= 6; ++step) {
    text += StepLine(step, 3, " | loss_ce_unscaled 0.07 | loss_box_unscaled 0.1");
  }
  EXPECT_FALSE(Surveyed(text).steps.back().loss_scale.has_value());
}

TEST(SurveyTest, ACostIsALoss) {
  std::string text;
  for (int step = 1; step <= 6; ++step) text += "Iter " + std::to_string(step) + ", cost: 2.5\n";
  EXPECT_EQ(Surveyed(text).steps.size(), 6u);
}

TEST(SurveyTest, WhatATrackerSumsUpIsNoStep) {
  std::string text;
  for (int epoch = 1; epoch <= 9; ++epoch) {
    text += "Epoch " + std::to_string(epoch) + ": policy_loss=0.5, value_loss=1.5\n";
  }
  EXPECT_EQ(Surveyed(text + "wandb:        policy_loss 0.07954\n").steps.size(), 9u);
}

// What it prints is named instead of "figures in 0 lines".
TEST(SurveyTest, OtherFiguresAreNamedWhereNoLossIs) {
  std::string text, table = "episode,bytes\n", prose;
  for (int epoch = 1; epoch <= 5; ++epoch) {
    const std::string n = std::to_string(epoch);
    text += "Train epoch " + n + ", total time 21." + n + ", throughput:11." + n + "\n";
    table += n + ",3" + n + "\n";
    prose += "nothing to see\n";
  }
  const std::string named = Surveyed(text).error;
  EXPECT_NE(named.find("It prints"), std::string::npos) << named;
  EXPECT_NE(named.find("\"throughput\""), std::string::npos) << named;
  EXPECT_EQ(named.find("figures stand in"), std::string::npos) << named;
  EXPECT_NE(Surveyed(table).error.find("It prints \"episode\", \"bytes\""), std::string::npos)
      << Surveyed(table).error;
  EXPECT_EQ(Surveyed(prose).error.find("It prints"), std::string::npos);
}

}  // namespace
}  // namespace mpnanny::test
