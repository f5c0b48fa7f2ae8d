// What logs of real trainers hold beside "step 12 loss 2.3": bars of progress, evaluations,
// counters under other names, sums without a step, and what Megatron says of a step that it ran
// again.
#include <gtest/gtest.h>

#include <cmath>

#include "engines/runs/import/log_line.h"
#include "tests/runs/import_files.h"

namespace mpnanny::test {
namespace {

ReadLog Read(const std::string& name, const std::string& text) {
  TempFolder folder;
  folder.Write(name, text);
  return ReadAsRun(folder, name);
}

bool Notes(const ReadLog& log, const std::string& words) {
  return log.notes.find(words) != std::string::npos;
}

TEST(ImportBarsTest, TheStepOfABarAndNotHowFarItHasCome) {
  struct BarLine {
    const char* text;
    int64_t step;
    double loss;
  };
  const BarLine lines[] = {
      {"Steps:  67%|██████▋   | 1998/3000 [6:02:32<3:54:34, 14.02s/it, lr=1e-4, step_loss=0.25]",
       1998, 0.25},
      {"steps:   0%|          | 160/32000 [27:22<90:51:13, 10.27s/it, avr_loss=0.0985]", 160,
       0.0985},
      {"steps:   0%|          | 160/32000 [27:22<90:51:13, 10.27s/it, Average key norm=1.2, "
       "avr_loss=0.0985]",
       160, 0.0985},
      {" 14%|█▍        | 378/2724 [13:58:09<86:18:35, 132.44s/it, loss=1.5]", 378, 1.5},
      {"Epoch 0:  45%|████▌     | 45/100 [00:10<00:12,  4.50it/s, v_num=0, train_loss=0.5]", 45,
       0.5},
      {"Epoch 0:  45%|████▌     | 45/? [00:10<?,  4.50it/s, v_num=0, train_loss=0.5]", 45, 0.5},
      {"Training:  12%|#2        | 120/1000 [00:10<01:12, loss=0.75]", 120, 0.75},
      {"67% 1998/3000 [6:02:32<3:54:34, 14.02s/it, loss=0.25]", 1998, 0.25},  // of a notebook
  };
  for (const BarLine& line : lines) {
    const imports::Figures figures = imports::ReadFigures(line.text);
    EXPECT_EQ(figures.step, line.step) << line.text;
    EXPECT_EQ(figures.loss, line.loss) << line.text;
  }
}

TEST(ImportBarsTest, ANanInABarIsAtItsStep) {
  const ReadLog log =
      Read("train.log",
           "Steps:  67%|###   | 1997/3000 [6:02:32<3:54:34, 14.02s/it, lr=1e-4, step_loss=0.217]\r"
           "Steps:  67%|###   | 1998/3000 [6:02:46<3:54:20, 14.02s/it, lr=1e-4, step_loss=nan]\n");
  ASSERT_TRUE(log.Find(1998)) << log.notes;
  EXPECT_TRUE(log.Find(1998)->flags & runs::kLossNan);
  EXPECT_FALSE(log.Find(67));
}

// The trainer prints the figures of a step under the bar of that step; bars of data count nothing.
TEST(ImportBarsTest, FiguresUnderABarWithoutFigures) {
  const ReadLog log = Read("train.log",
                           "Map: 100%|##########| 5000/5000 [00:01<00:00, 4000.0 examples/s]\n"
                           "  0%|          | 10/2724 [00:10<45:00,  1.0s/it]\r"
                           "{'loss': 1.5, 'learning_rate': 1e-05, 'epoch': 0.01}\n"
                           "  1%|          | 20/2724 [00:20<45:00,  1.0s/it]\r"
                           "{'loss': 1.25, 'learning_rate': 1e-05, 'epoch': 0.02}\n");
  ASSERT_EQ(log.steps.size(), 2u) << log.notes;
  EXPECT_EQ(log.steps[0].step, 10);
  EXPECT_EQ(log.steps[1].step, 20);
  EXPECT_EQ(log.steps[1].loss, 1.25);
}

TEST(ImportBarsTest, AlignedColumnsUnderAHeader) {
  const std::string head =
      "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n";
  const auto row = [](int epoch, const std::string& box, int done) {
    return "      " + std::to_string(epoch) + "/100      2.21G      " + box +
           "      2.345      1.456         12        640: 100%|##########| " +
           std::to_string(done) + "/8 [00:01<00:00,  4.50it/s]\n";
  };
  const ReadLog log = Read("train.log", head + row(1, "1.5", 4) + row(1, "1.25", 8) + "\n" + head +
                                            row(2, "1.125", 4) + row(2, "nan", 8));
  ASSERT_EQ(log.steps.size(), 4u) << log.notes;
  EXPECT_EQ(log.steps[0].step, 4);
  EXPECT_EQ(log.steps[0].loss, 1.5);
  EXPECT_EQ(log.steps[2].loss, 1.125);
  EXPECT_TRUE(log.steps[3].flags & runs::kLossNan);
  EXPECT_TRUE(Notes(log, "Other figures, kept under their names: cls_loss, dfl_loss."))
      << log.notes;
  // A sentence with such words is no header.
  const ReadLog prose =
      Read("train.log", "step loss and scale are printed below\nstep 3 loss 1.5\n");
  EXPECT_EQ(prose.steps.size(), 1u);
  EXPECT_FALSE(Notes(prose, "Other figures")) << prose.notes;
}

TEST(ImportNamesTest, CurrentStepsAreSteps) {
  for (const char* name : {"current_steps", "cur_iter", "completed_steps", "global_step"}) {
    const ReadLog log =
        Read("log.jsonl", "{\"" + std::string(name) +
                              "\": 10, \"total_steps\": 800, \"save_steps\": 50, \"loss\": 2.5, "
                              "\"percentage\": 1.25, \"lr\": 1e-5}\n");
    ASSERT_EQ(log.steps.size(), 1u) << name;
    EXPECT_EQ(log.steps[0].step, 10) << name;
    EXPECT_FALSE(Notes(log, "No step number was read")) << name;
    EXPECT_TRUE(
        Notes(log, "Other figures, kept under their names: total_steps, save_steps, percentage."))
        << log.notes;
  }
}

TEST(ImportNamesTest, AScaledLossIsNoScale) {
  for (const char* name : {"loss_scaled", "scaled_loss"}) {
    const ReadLog log =
        Read("log.jsonl", "{\"step\": 1, \"loss\": 2.5, \"" + std::string(name) + "\": 0.0005}\n");
    ASSERT_EQ(log.steps.size(), 1u) << log.error;
    EXPECT_FALSE(log.steps[0].loss_scale) << name;
    EXPECT_EQ(log.steps[0].loss, 2.5) << name;
  }
  EXPECT_EQ(
      Read("log.jsonl", "{\"step\": 1, \"loss\": 2.5, \"loss_scale\": 8}\n").steps[0].loss_scale,
      8);
}

TEST(ImportNamesTest, SumsWithoutAStepAreNoSteps) {
  const ReadLog log = Read("train.log",
                           "step 1 loss 2.5\nstep 2 loss 2.25\nepoch 1: mean loss 2.375\n"
                           "step 3 loss 2.125\nstep 4 loss 2.0\nepoch 2: mean loss 2.0625\n");
  ASSERT_EQ(log.steps.size(), 4u) << log.notes;
  EXPECT_EQ(log.steps[2].loss, 2.125);
  EXPECT_TRUE(Notes(log, "(\"mean loss\"), are no steps of it"));
  // A loss that is not finite counts wherever it stands.
  const ReadLog broken = Read("train.log", "step 1 loss 2.5\nLoss is nan, stopping training\n");
  EXPECT_TRUE(broken.steps.back().flags & runs::kLossNan);
}

TEST(ImportEvaluationsTest, TheirLossesAreKeptBesideTheSteps) {
  const ReadLog log =
      Read("log.jsonl",
           "{\"current_steps\": 10, \"loss\": 2.5}\n{\"current_steps\": 10, \"eval_loss\": 2.0}\n"
           "{\"current_steps\": 20, \"loss\": 2.25}\n{\"current_steps\": 20, \"eval_loss\": NaN}\n"
           "{\"current_steps\": 30, \"loss\": 2.125}\n");
  ASSERT_EQ(log.steps.size(), 3u) << log.notes;
  EXPECT_EQ(log.steps[1].loss, 2.25);
  EXPECT_TRUE(Notes(log,
                    "losses of evaluations (\"eval_loss\", 2 read): 2 at first, 2 the last that is "
                    "finite; 1 of them is not finite, first at step 20"))
      << log.notes;
}

TEST(ImportEvaluationsTest, WhereverTheyStand) {
  const std::pair<const char*, const char*> logs[] = {
      {"metrics.csv", "step,train_loss,val_loss\n1,2.5,\n1,,2.0\n2,2.25,\n2,,nan\n"},
      {"train.log",
       "{'loss': 2.5, 'step': 1}\n{'eval_loss': 2.0, 'eval_runtime': 3.0}\n"
       "{'loss': 2.25, 'step': 2}\n{'eval_loss': nan, 'eval_runtime': 3.0}\n"},
      {"train.log",
       "step 1 loss 2.5\nstep 1 val loss 2.0\nstep 2 loss 2.25\nstep 2 val loss nan\n"},
      {"log.jsonl",
       "{\"mode\": \"train\", \"step\": 1, \"loss\": 2.5}\n{\"mode\": \"val\", \"step\": 1, "
       "\"loss\": 2.0}\n{\"mode\": \"train\", \"step\": 2, \"loss\": 2.25}\n{\"mode\": \"val\", "
       "\"step\": 2, \"loss\": NaN}\n"}};
  for (const auto& [name, text] : logs) {
    const ReadLog log = Read(name, text);
    ASSERT_EQ(log.steps.size(), 2u) << text << log.notes;
    EXPECT_EQ(log.steps[1].loss, 2.25) << text;
    EXPECT_FALSE(log.steps[1].flags & runs::kLossNan) << text;
    EXPECT_TRUE(Notes(log, "2 read)")) << text << log.notes;
    EXPECT_TRUE(Notes(log, "1 of them is not finite, first at step 2")) << text << log.notes;
  }
}

TEST(ImportMegatronTest, AResultThatTheRerunStateMachineRejects) {
  const auto line = [](int at) {
    return " iteration " + std::to_string(at) +
           "/ 50 | learning rate: 1.0E-05 | lm loss: 2.0E+00 | loss scale: 1.0 | grad norm: 0.5 "
           "|\n";
  };
  const std::string rejects =
      "ERROR:megatron.core.rerun_state_machine:Unexpected result nan on rank 3 at iteration #3 "
      "invocation #2 (message='found NaN in local grad norm for bucket #0 in backward pass before "
      "data-parallel communication collective')\n"
      "ERROR:megatron.core.rerun_state_machine:Unexpected result nan on rank 5 at iteration #3 "
      "invocation #2 (message='found NaN in local forward loss calculation')\n"
      "ERROR:megatron.core.rerun_state_machine:Rank 3, node n1, device 3, iteration #3: First "
      "rerun: "
      "unexpected result is reproducible within the tolerance (nan = nan). Need to rerun on a "
      "different GPU to verify correctness.!\n";
  const ReadLog log = Read("train.log", line(1) + line(2) + line(3) + rejects);
  ASSERT_EQ(log.steps.size(), 4u) << log.notes;
  EXPECT_EQ(log.steps[3].step, 4) << "its iterations begin at 0, those that are printed at 1";
  EXPECT_TRUE(log.steps[3].flags & runs::kLossNan);
  EXPECT_TRUE(log.steps[3].flags & runs::kGradNonFinite);
  EXPECT_TRUE(Notes(log, "got the same result: it is no passing error of the GPU")) << log.notes;
  // A job that goes on from a checkpoint counts anew; a spike of one rank is no loss of the step.
  const ReadLog resumed =
      Read("train.log", line(4001) + rejects +
                            "WARNING:megatron.core.rerun_state_machine:Rank 0, node n1, device 0, "
                            "iteration 5: Unexpected result 45.5 (message='Spiky loss')\n");
  ASSERT_EQ(resumed.steps.size(), 2u) << resumed.notes;
  EXPECT_EQ(resumed.steps[1].step, 4002);
}

}  // namespace
}  // namespace mpnanny::test
