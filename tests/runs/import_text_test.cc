// Console output of trainers, read as runs: their ways of printing figures, counting steps and
// telling of skipped ones.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/runs/import_files.h"

namespace mpnanny::test {
namespace {

ReadLog Text(const std::string& text) {
  TempFolder folder;
  folder.Write("train.log", text);
  return ReadAsRun(folder, "train.log");
}

std::string Line(int64_t step, const std::string& rest) {
  return "step " + std::to_string(step) + " " + rest + "\n";
}

TEST(ImportTextTest, MegatronWithSkippedAndNanIterations) {
  const std::string head = " iteration ";
  const auto line = [&](int64_t at, const std::string& rest) {
    return head + std::to_string(at) +
           "/  500 | consumed samples: 10 | elapsed time per iteration (ms): 41.0 | learning rate: "
           "6.000E-05 | global batch size: 8 | " +
           rest + " | num zeros: 0.0 |\n";
  };
  const std::string skips = " | number of skipped iterations:   ";
  const ReadLog log =
      Text(line(1, "loss scale: 65536.0 | grad norm: 0.000" + skips +
                       "1 | number of nan iterations:   0") +
           line(2, "lm loss: 1.05E+01 | loss scale: 32768.0 | grad norm: 2.5" + skips +
                       "0 | number of nan iterations:   0") +
           " validation loss at iteration 2 | lm loss value: 9.9E+00 | lm loss PPL: 2.0E+04\n" +
           line(12, "lm loss: 9.0E+00 | loss scale: 32768.0 | grad norm: 2.0" + skips +
                        "3 | number of nan iterations:   0") +
           line(22, "lm loss: 8.0E+00 | loss scale: 32768.0 | grad norm: 2.0" + skips +
                        "0 | number of nan iterations:   4"));
  ASSERT_EQ(log.steps.size(), 4u) << log.notes;
  EXPECT_EQ(log.steps[0].step, 1);
  EXPECT_TRUE(log.steps[0].flags & runs::kSkipped);
  EXPECT_EQ(log.steps[1].loss, 10.5) << "not that of the validation";
  EXPECT_EQ(log.steps[1].lr, 6e-05);
  EXPECT_FALSE(log.steps[2].flags & runs::kSkipped) << "three of ten";
  EXPECT_NE(log.notes.find("4 skipped iterations"), std::string::npos) << log.notes;
  EXPECT_EQ(log.steps[3].loss, 8) << "a part of the loss";
  EXPECT_TRUE(log.steps[3].flags & runs::kLossNan);
}

TEST(ImportTextTest, WhatStandsBeforeTheFirstStepIsConfiguration) {
  const std::string dump =
      "Namespace(loss_weights=[0.1, 10], kl_loss_coef=0.001, loss_scale=6.28)\n"
      "  loss_weight: 0.25\n"
      "auxiliary_loss_multiplier: 0.0001\n";
  const ReadLog log = Text(dump + Line(1, "loss 9.1") + Line(2, "loss 8.0"));
  ASSERT_EQ(log.steps.size(), 2u) << log.notes;
  EXPECT_EQ(log.steps[0].step, 1);
  EXPECT_EQ(log.steps[0].loss, 9.1);
  EXPECT_FALSE(log.steps[0].loss_scale);
  // Lines without a number are steps where none has one, and so are steps skipped before the first.
  EXPECT_EQ(Text("loss 3.0\nloss 2.0\nloss 1.0\n").steps.size(), 3u);
}

TEST(ImportTextTest, MegatronLeavesOutALossThatIsNotFinite) {
  std::string text;
  const auto line = [&](int at, const std::string& loss, int skipped) {
    text += " iteration " + std::to_string(at) + "/ 50 | learning rate: 1.0E-05 | " + loss +
            "loss scale: 1.0 | grad norm: 0.000 | number of skipped iterations: " +
            std::to_string(skipped) + " | number of nan iterations: 0 |\n";
  };
  for (int at = 1; at <= 3; ++at) line(at, "", 1);  // the search for a scale
  for (int at = 4; at <= 9; ++at) line(at, "lm loss: 2.0E+00 | ", 0);
  for (int at = 10; at <= 12; ++at) line(at, "", 0);
  const ReadLog log = Text(text);
  ASSERT_EQ(log.steps.size(), 12u);
  for (const runs::StepRow& row : log.steps) {
    EXPECT_EQ((row.flags & runs::kSkipped) != 0, row.step <= 3) << row.step;
    EXPECT_EQ(row.loss && std::isnan(*row.loss), row.step >= 10) << row.step;
    EXPECT_FALSE(row.grad_norm && *row.grad_norm == 0) << "a norm that was not computed";
  }
  EXPECT_NE(log.notes.find("3 lines without a loss"), std::string::npos) << log.notes;
  EXPECT_NE(log.notes.find("0 throughout"), std::string::npos) << log.notes;
}

TEST(ImportTextTest, DeepSpeed) {
  const ReadLog log = Text(
      "[2023-01-01 00:00:01,123] [INFO] [loss_scaler.py:183:update_scale] [deepspeed] OVERFLOW! "
      "Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768\n"
      "[2023-01-01 00:00:02,123] [INFO] [loss_scaler.py:190] [deepspeed] OVERFLOW! Rank 0 Skipping "
      "step. Attempted loss scale: 32768, but hysteresis is 2. Reducing hysteresis to 1\n"
      "[2023-01-01 00:00:02,500] [INFO] [loss_scaler.py:183:update_scale] [deepspeed] OVERFLOW! "
      "Rank 0 Skipping step. Attempted loss scale: 32768, reducing to 16384\n"
      "[2023-01-01 00:00:03,123] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=2, "
      "lr=[6e-05], mom=[(0.9, 0.999)]\n"
      "steps: 10 loss: 5.2500 iter time (s): 0.500 samples/sec: 16.0\n");
  ASSERT_EQ(log.steps.size(), 4u) << log.notes;
  EXPECT_TRUE(log.steps[0].flags & runs::kSkipped);
  EXPECT_EQ(log.steps[0].loss_scale, 65536) << "the step was tried with it";
  EXPECT_TRUE(log.steps[1].flags & runs::kSkipped);
  EXPECT_EQ(log.steps[1].loss_scale, 32768);
  EXPECT_EQ(log.steps[2].loss_scale, 32768);
  EXPECT_EQ(log.steps[3].step, 10);
  EXPECT_EQ(log.steps[3].loss_scale, 16384) << "what the scaler went on with";
  EXPECT_EQ(log.steps[3].loss, 5.25);
  EXPECT_EQ(log.steps[3].lr, 6e-05);
}

TEST(ImportTextTest, ABarTellsAtWhichStepTheScalerSkipped) {
  const ReadLog log = Text(
      " 14%|#4  | 378/2724 [13:58:09<86:18:35, 132.44s/it][2023-06-07 22:16:00,018] [INFO] "
      "[loss_scaler.py:181:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted "
      "loss "
      "scale: 64, reducing to 32\n");
  ASSERT_EQ(log.steps.size(), 1u);
  EXPECT_EQ(log.steps[0].step, 378);
  EXPECT_EQ(log.steps[0].loss_scale, 64);
}

TEST(ImportTextTest, DeepSpeedsTimesAndRises) {
  const ReadLog log = Text(
      "step=5, skipped=0, lr=[0.001]\nloss: 1.5\nrank=0 time (ms) | forward: 9.5 | step: 649.10\n"
      "[fused_optimizer.py:353:_update_scale] Increasing dynamic loss scale from 16384.0 to "
      "32768.0\nloss: 1.25\n");
  ASSERT_EQ(log.steps.size(), 2u) << log.notes;
  EXPECT_EQ(log.steps[0].step, 5);
  EXPECT_EQ(log.steps[0].loss_scale, 32768);
  EXPECT_EQ(log.steps[1].step, 6);
}

TEST(ImportTextTest, OtherTrainersLines) {
  const std::pair<std::string, std::string> lines[] = {
      {"fairseq",
       "2022-01-01 | INFO | train_inner | {\"epoch\": 1, \"update\": 0.1, \"loss\": \"2.5\", "
       "\"ppl\": \"5\", \"wps\": \"1\", \"num_updates\": \"7\", \"lr\": \"1e-05\", \"gnorm\": "
       "\"1.5\", \"loss_scale\": \"64\", \"train_wall\": \"3\"}"},
      {"fairseq, plain",
       "epoch 001:     10 / 100 loss=2.5, nll_loss=2.2, ppl=4, wps=1, num_updates=7, lr=1e-05, "
       "gnorm=1.5, loss_scale=64, train_wall=3"},
      {"hugging face",
       "{'loss': '2.5', 'grad_norm': '1.5', 'learning_rate': '1e-05', 'step': 7, 'loss_scale': "
       "64}"},
      {"lightning's bar",
       "Epoch 0:  70%|#######   | 7/10 [00:01<00:00, 5.00it/s, v_num=0, loss=2.5, lr=1e-05, "
       "grad_norm=1.5, loss_scale=64]"},
      {"detectron",
       "[01/01 10:00:00 d2.utils.events]: eta: 0:10:00 iter: 7 total_loss: 2.5 loss_cls: 1 "
       "loss_box_reg: 1 time: 0.3 lr: 1e-05 grad_norm: 1.5 loss_scale: 64 max_mem: 2000M"},
      {"mmengine",
       "2023/01/01 - mmengine - INFO - Iter(train) [7/100]  iter: 7 lr: 1.0000e-05  eta: 0:01 "
       "time: "
       "0.5 loss: 2.5  decode.loss_ce: 2.4  grad_norm: 1.5 loss_scale: 64"},
      {"tensors",
       "step=7 loss=tensor(2.5000, device='cuda:0') grad_norm: tensor(1.5) lr: [1e-05] "
       "loss scale: 64"},
  };
  for (const auto& [name, line] : lines) {
    const ReadLog log = Text(line + "\r\n");
    ASSERT_EQ(log.steps.size(), 1u) << name << log.error;
    EXPECT_EQ(log.steps[0].step, 7) << name;
    EXPECT_EQ(log.steps[0].loss, 2.5) << name;
    EXPECT_EQ(log.steps[0].grad_norm, 1.5) << name;
    EXPECT_EQ(log.steps[0].lr, 1e-05) << name;
    EXPECT_EQ(log.steps[0].loss_scale, 64) << name;
  }
}

TEST(ImportTextTest, WhatIsNoFigureOfATraining) {
  for (const std::string line :
       {"val loss: 3.0 step: 5", "| valid on 'valid' subset | loss 3.4 | num_updates 500",
        "Validation: loss 3.0", "lr_warmup_steps=100", "max_steps: 1000", "time_per_step: 0.3",
        "elapsed time per iteration (ms): 40",
        "rank=0 time (ms) | forward: 1425.20 | step: 649.10"}) {
    EXPECT_TRUE(Text(line + "\n").steps.empty()) << line;
  }
  const ReadLog log =
      Text("step 0: train loss 10.9, val loss 11.5\nsteps: 100000\nstep 5: train loss 2\n");
  ASSERT_EQ(log.steps.size(), 2u);
  EXPECT_EQ(log.steps[0].loss, 10.9);
  EXPECT_EQ(log.steps[1].step, 5);
}

TEST(ImportTextTest, AResumedRunKeepsBothWays) {
  std::string log;
  for (int64_t step = 0; step < 120; ++step) {
    log += Line(step, step < 110 ? "loss 2.0" : "loss nan");
  }
  log += "loading checkpoint at step 80\n";
  for (int64_t step = 80; step < 100; ++step) log += Line(step, "loss 1.0");
  TempFolder folder;
  folder.Write("train.log", log);
  const ReadLog now = ReadAsRun(folder, "train.log");
  ASSERT_EQ(now.steps.size(), 100u) << now.notes;
  EXPECT_EQ(now.Find(79)->loss, 2.0);
  EXPECT_EQ(now.Find(80)->loss, 1.0);
  EXPECT_EQ(now.runs, 2);
  EXPECT_NE(now.notes.find("goes back"), std::string::npos) << now.notes;
  const ReadLog before = ReadAsRun(folder, "train.log#2");
  ASSERT_EQ(before.steps.size(), 120u);
  EXPECT_EQ(before.Find(80)->loss, 2.0);
  EXPECT_TRUE(std::isnan(*before.Find(110)->loss));
  auto diagnosis = Call("diagnose_run", {{"run", "train.log#2"}}, folder.path());
  ASSERT_TRUE(diagnosis);
  EXPECT_EQ(diagnosis->structured["first_bad"]["step"], 110);
  EXPECT_FALSE(ReadAsRun(folder, "train.log#3").error.empty());
  auto pasted = Call("diagnose_run", {{"log_text", log}}, folder.path());
  ASSERT_TRUE(pasted);
  EXPECT_NE(pasted->text.find("is left out"), std::string::npos) << pasted->text;
}

TEST(ImportTextTest, SeveralRanksPrintTheSameSteps) {
  std::string log;
  for (int64_t step = 0; step < 50; ++step) {
    for (int rank = 0; rank < 4; ++rank) {
      // They overtake one another by a step.
      log += Line(step + (rank == 3 && step > 0 ? -1 : 0),
                  step == 40 && rank == 1 ? "loss nan" : "loss 2.0");
    }
  }
  const ReadLog read = Text(log);
  ASSERT_EQ(read.steps.size(), 50u) << read.notes;
  EXPECT_TRUE(std::isnan(*read.Find(40)->loss)) << "one bad rank is not hidden by the others";
  EXPECT_EQ(read.Find(41)->loss, 2.0);
  EXPECT_EQ(read.runs, 1);
}

TEST(ImportTextTest, ANormThatFollowsTheScaleIsUnscaled) {
  const auto course = [](bool scaled) {
    std::string log;
    double scale = 65536;
    for (int64_t step = 0; step < 200; ++step) {
      if (step > 0 && step % 40 == 0) scale /= 2;
      const double norm = 1.0 + 0.2 * std::sin(static_cast<double>(step));
      log += Line(step, "loss 2.0 loss_scale " + std::to_string(scale) + " grad_norm " +
                            std::to_string(scaled ? norm * scale : norm));
    }
    return Text(log);
  };
  const ReadLog scaled = course(true), plain = course(false);
  EXPECT_NEAR(*scaled.Find(100)->grad_norm, *plain.Find(100)->grad_norm, 1e-3);
  EXPECT_NE(scaled.notes.find("divided by the scale"), std::string::npos) << scaled.notes;
  EXPECT_EQ(plain.notes.find("divided by the scale"), std::string::npos) << plain.notes;
  // Two moves prove nothing.
  const ReadLog two = Text(
      "step 0 loss 1 loss_scale 4 grad_norm 4\n"
      "step 1 loss 1 loss_scale 2 grad_norm 2\n"
      "step 2 loss 1 loss_scale 1 grad_norm 1\n");
  EXPECT_EQ(two.Find(0)->grad_norm, 4);
}

TEST(ImportTextTest, EncodingsAndEndsOfLines) {
  const std::string text = "step 1 loss 2.5\nstep 2 loss nan\n";
  std::string wide = "\xFF\xFE", wide_big = "\xFE\xFF";
  for (const char c : text) {
    wide += std::string{c, '\0'};
    wide_big += std::string{'\0', c};
  }
  std::string returns = text;
  for (char& c : returns) c = c == '\n' ? '\r' : c;
  for (const std::string& form : {text, "\xEF\xBB\xBF" + text, wide, wide_big, returns}) {
    const ReadLog log = Text(form);
    ASSERT_EQ(log.steps.size(), 2u) << log.error;
    EXPECT_EQ(log.steps[0].loss, 2.5);
    EXPECT_TRUE(std::isnan(*log.steps[1].loss));
  }
}

}  // namespace
}  // namespace mpnanny::test
