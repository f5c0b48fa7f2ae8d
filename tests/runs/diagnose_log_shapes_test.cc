// What a log's shape tells beyond its figures: lines without a step between two marks, the
// exception at its end, a loss that rises again, noise that only looks like trouble.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/runs/recording.h"

namespace mpnanny::test {
namespace {

Json Asked(const std::string& log) {
  TempFolder folder;
  auto output = Call("diagnose_run", {{"log_text", log}}, folder.path());
  EXPECT_TRUE(output) << (output ? "" : output.error().Text());
  return output ? output->structured : Json::object();
}

std::string Headline(const Json& d) { return d.value("headline", ""); }
bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// HF's Trainer logs every 10 steps without their number; a bar tells it every 50.
std::string TrainerLog(int64_t first_nan) {
  std::string log = "  Total optimization steps = 400\n  Gradient Accumulation steps = 4\n";
  for (int64_t step = 10; step <= 400; step += 10) {
    const bool bad = step >= first_nan;
    log += "{'loss': " +
           (bad ? "0.0" : std::to_string(1 + std::exp(-0.01 * static_cast<double>(step)))) +
           ", 'grad_norm': " + (bad ? "nan" : "0.5") + ", 'learning_rate': 1e-4, 'epoch': 0.1}\n";
    if (step % 50 == 0) {
      log += " 12%|█▏        | " + std::to_string(step) + "/400 [03:04<2:24:31,  3.69s/it]\n";
    }
  }
  return log;
}

TEST(DiagnoseLogShapes, LinesBetweenTwoBarsShareTheStepsBetweenThem) {
  const Json d = Asked(TrainerLog(230));
  EXPECT_EQ(d["verdict"], "broken") << d;
  EXPECT_TRUE(Has(Headline(d), "first bad step 230:")) << Headline(d);
  const std::string line = DumpJson(d["timeline"]);
  EXPECT_TRUE(Has(line, "\"step\":10,")) << line;   // starts
  EXPECT_TRUE(Has(line, "\"step\":400,")) << line;  // the log ends
}

// Bars that come with every step: the line behind one is of its step.
TEST(DiagnoseLogShapes, ALineBehindABarOfEveryStepIsOfThatStep) {
  std::string log;
  for (int64_t step = 1; step <= 60; ++step) {
    log += " 12%|█▏        | " + std::to_string(step) + "/60 [03:04<2:24:31,  3.69s/it]\n";
    if (step % 10 == 0) log += std::string("{'loss': ") + (step == 40 ? "nan" : "1.5") + "}\n";
  }
  EXPECT_TRUE(Has(Headline(Asked(log)), "first bad step 40:")) << Headline(Asked(log));
}

TEST(DiagnoseLogShapes, ASearchForAScaleGoesOnAcrossALineThatTellsOfTenSteps) {
  std::string log;
  double scale = 4294967296;
  for (int step = 1; step <= 600; ++step) {
    if (step <= 18 || step == 433) {
      log += "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: " +
             std::to_string(static_cast<int64_t>(scale)) + ", reducing to " +
             std::to_string(static_cast<int64_t>(scale / 2)) + "\n";
      scale /= 2;
    }
    if (step % 10 == 0) {
      log += "[Rank 0] step=" + std::to_string(step) + ", skipped=18, lr=[1e-5]\n";
      log += "Epoch: 0, Step: " + std::to_string(step) +
             ", Rank: 0, loss = " + std::to_string(1 + std::exp(-0.01 * step)) + "\n";
    }
  }
  const Json d = Asked(log);
  EXPECT_EQ(d["verdict"], "healthy") << d;
  EXPECT_FALSE(Has(DumpJson(d), "keeps falling")) << d;
}

std::string Steps(int64_t from, int64_t to) {
  std::string log;
  for (int64_t step = from; step <= to; ++step) {
    log += "step " + std::to_string(step) + " loss " +
           std::to_string(1 + std::exp(-0.02 * static_cast<double>(step))) + "\n";
  }
  return log;
}

constexpr const char* kTraceback =
    "Traceback (most recent call last):\n"
    "  File \"train.py\", line 31, in <module>\n"
    "    sample(model, x)\n"
    "  File \"/venv/lib/python3.11/site-packages/torch/nn/modules/conv.py\", line 456, in forward\n"
    "    return F.conv2d(input, weight, bias)\n"
    "RuntimeError: Input type (c10::Half) and bias type (float) should be the same\n";

TEST(DiagnoseLogShapes, AnExceptionAtTheEndIsQuotedWithItsLine) {
  const std::string launcher =
      "Traceback (most recent call last):\n"
      "  File \"/venv/bin/accelerate\", line 8, in <module>\n"
      "subprocess.CalledProcessError: Command died\n";
  const Json d = Asked(Steps(1, 80) + kTraceback + launcher);
  EXPECT_EQ(d["verdict"], "broken") << d;
  EXPECT_TRUE(Has(Headline(d), "Input type (c10::Half) and bias type (float)")) << Headline(d);
  EXPECT_EQ(d["first_bad"]["source"], "train.py:31") << d["first_bad"];
  EXPECT_EQ(d["first_bad"]["step"], 80);
  EXPECT_FALSE(Has(DumpJson(d), "CalledProcessError")) << d;
}

TEST(DiagnoseLogShapes, AnExceptionThatNoCaseKnowsEndsALogInItsWords) {
  const Json d = Asked(Steps(1, 80) +
                       "[rank0]: Traceback (most recent call last):\n"
                       "[rank0]:   File \"data.py\", line 7, in load\n"
                       "[rank0]:     return table[key]\n[rank0]: KeyError: 'mask'\n");
  EXPECT_EQ(d["verdict"], "broken") << d;
  EXPECT_TRUE(Has(Headline(d), "ended after step 80 with KeyError: 'mask' (data.py:7), at line 84"))
      << Headline(d);
}

TEST(DiagnoseLogShapes, AnExceptionThatTheTrainingSurvivedDidNotEndIt) {
  const Json d = Asked(Steps(1, 40) +
                       "Traceback (most recent call last):\n"
                       "  File \"data.py\", line 7, in load\nKeyError: 'mask'\n" +
                       Steps(41, 80));
  EXPECT_EQ(d["verdict"], "healthy") << d;
  EXPECT_FALSE(Has(DumpJson(d), "KeyError")) << d;
  const Json stopped = Asked(Steps(1, 80) +
                             "Traceback (most recent call last):\n"
                             "  File \"train.py\", line 7, in main\nKeyboardInterrupt\n");
  EXPECT_FALSE(Has(DumpJson(stopped), "KeyboardInterrupt")) << stopped;
}

std::string WithNorms(double (*loss)(int), double (*norm)(int), int steps = 200) {
  std::string log;
  for (int step = 0; step < steps; ++step) {
    log += "{\"step\": " + std::to_string(step) + ", \"loss\": " + std::to_string(loss(step)) +
           ", \"grad_norm\": " + std::to_string(norm(step)) + "}\n";
  }
  return log;
}

TEST(DiagnoseLogShapes, ANormOfZeroBesideALossThatNeverMovesIsTheGradients) {
  const auto zero = [](int) { return 0.0; };
  const Json still = Asked(WithNorms([](int) { return 0.693147; }, zero));
  EXPECT_EQ(still["verdict"], "degraded") << still;
  EXPECT_TRUE(Has(Headline(still), "no weight gets a gradient")) << Headline(still);
  // Trainers that do not clip print 0 as well.
  const Json falls = Asked(WithNorms([](int step) { return 1 + std::exp(-0.02 * step); }, zero));
  EXPECT_EQ(falls["verdict"], "healthy") << falls;
}

TEST(DiagnoseLogShapes, ALossThatRisesAgainHasDivergedWhereItsGradientsGrew) {
  const auto rises = [](int step) {
    return step < 100 ? 3.5 + 9 * std::exp(-0.05 * step) : 3.5 + 0.05 * std::min(step - 100, 80);
  };
  const Json grew = Asked(WithNorms(
      rises, [](int step) { return step < 100 ? 0.7 : 0.7 * std::pow(1.06, step - 100); }));
  EXPECT_EQ(grew["verdict"], "broken") << grew;
  EXPECT_TRUE(Has(Headline(grew), "the loss had fallen to about 3.5")) << Headline(grew);
  // A term that a schedule adds leaves gradients as they are: it is no fault, and no success.
  const Json added = Asked(WithNorms(rises, [](int) { return 0.7; }));
  EXPECT_EQ(added["verdict"], "not_established") << added;
  EXPECT_TRUE(Has(Headline(added), "did not fall clearly and stay down")) << Headline(added);
}

// The loss of GRPO is 0 at first, by construction, and grows with the distance to the reference.
TEST(DiagnoseLogShapes, APolicysLossIsNoLevel) {
  const auto policy = [](int step) { return 1e-5 * step; };
  EXPECT_EQ(Asked(WithNorms(policy, [](int) { return 0.3; }))["verdict"], "not_established");
  EXPECT_EQ(Asked(WithNorms(policy, [](int step) { return 0.3 * (1 + step); }))["verdict"],
            "broken");
}

TEST(DiagnoseLogShapes, ALogThatShowsNoLossScaleDoesNotSayThatThereIsNone) {
  const Json d = Asked("Running with mixed_precision=fp16\n" + Steps(1, 80));
  EXPECT_EQ(d["verdict"], "healthy") << d;
  EXPECT_FALSE(Has(DumpJson(d), "is not scaled")) << d;
}

// Batches of one sample: the loss of a diffusion model scatters over three decades.
TEST(DiagnoseLogShapes, ScatterOfSingleBatchesIsNoTrouble) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  std::string log;
  for (int step = 0; step < 400; ++step) {
    log += "step " + std::to_string(step) + " loss " +
           std::to_string(0.05 * std::exp(1.5 * normal(random))) + "\n";
  }
  const Json d = Asked(log);
  EXPECT_EQ(d["verdict"], "not_established") << d;
  EXPECT_FALSE(Has(DumpJson(d), "the loss rose")) << d;
  EXPECT_FALSE(Has(DumpJson(d), "LOSS_SPIKE")) << d;
}

TEST(DiagnoseLogShapes, EachEvaluationThatIsNanCounts) {
  std::string table = "epoch,train/loss,val/loss\n";
  for (int epoch = 1; epoch <= 60; ++epoch) {
    table += std::to_string(epoch) + "," + std::to_string(1 + std::exp(-0.1 * epoch)) + "," +
             (epoch > 40 ? "nan" : std::to_string(2 - 0.01 * epoch)) + "\n";
  }
  const Json d = Asked(table);
  EXPECT_EQ(d["verdict"], "broken") << d;
  EXPECT_TRUE(Has(Headline(d), "in 20 of 60 evaluations")) << Headline(d);
}

// torchtitan colours its figures: "[31mstep" is no word.
TEST(DiagnoseLogShapes, AStepInColoursIsAStep) {
  std::string log;
  for (int64_t step = 10; step <= 400; step += 10) {
    log += "\x1b[31mstep: " + std::to_string(step) +
           "  \x1b[32mloss:  " + (step == 250 ? "nan" : "2.5") +
           "  \x1b[38;5;208mgrad_norm:  0.30\x1b[39m\n";
  }
  EXPECT_TRUE(Has(Headline(Asked(log)), "first bad step 250")) << Headline(Asked(log));
}

// A fifth of its level above the least one says nothing by itself; gradients that grew with it do.
TEST(DiagnoseLogShapes, ASlowRiseBesideGrowingGradientsIsADivergence) {
  const auto log = [](double grown) {
    std::string text;
    for (int64_t step = 10; step <= 8000; step += 10) {
      const auto x = static_cast<double>(step);
      const double up = std::max(0.0, (x - 3000) / 5000);
      text += "step: " + std::to_string(step) +
              " loss: " + std::to_string(2.8 + 9.5 * std::exp(-x / 400) + 1.3 * up) +
              " grad_norm: " + std::to_string(0.35 * (1 + (grown - 1) * up)) + "\n";
    }
    return text;
  };
  const Json d = Asked(log(8));
  EXPECT_EQ(d["verdict"], "broken") << d;
  EXPECT_TRUE(Has(Headline(d), "gradient norm went from about 0.35")) << Headline(d);
  EXPECT_EQ(Asked(log(1))["verdict"], "not_established") << "no fault, and no success";
}

TEST(DiagnoseLogShapes, LossesOfTwoPlayersNeedNotFall) {
  const auto log = [](const char* one, const char* other) {
    std::string text;
    for (int64_t step = 1; step <= 200; ++step) {
      const auto x = static_cast<double>(step);
      text += "step " + std::to_string(step) + " " + one + "=" + std::to_string(0.9 + 0.04 * x) +
              " " + other + "=" + std::to_string(0.6 - 0.001 * x) + "\n";
    }
    return text;
  };
  EXPECT_EQ(Asked(log("g_loss", "d_loss"))["verdict"], "not_established");
  EXPECT_EQ(Asked(log("loss", "aux_loss"))["verdict"], "broken");
}

TEST(DiagnoseLogShapes, AKilledProcessIsSaidWithTheLineThatTellsIt) {
  const std::string killed =
      "slurmstepd: error: Detected 1 oom_kill event in StepId=88.0. Some of the step tasks have "
      "been OOM Killed.\n";
  const Json d = Asked(Steps(1, 60) + killed);
  EXPECT_TRUE(Has(Headline(d), "SIGKILL: slurmstepd: error: Detected 1 oom_kill event"))
      << Headline(d);
  EXPECT_FALSE(Has(Headline(Asked(Steps(1, 60) + killed + Steps(61, 120))), "SIGKILL"))
      << "it was started again";
}

TEST(DiagnoseLogShapes, ATableWithARowAValueIsRead) {
  std::string table = "wall_time,tag,step,value\n";
  for (int64_t step = 25; step <= 2500; step += 25) {
    const std::string at = "17123.5," + std::string("train/");
    const std::string number = std::to_string(step);
    table += at + "loss," + number + "," + (step >= 2000 ? "nan" : "1.5") + "\n";
    table += at + "grad_norm," + number + ",0.7\n" + at + "lr," + number + ",0.001\n";
  }
  TempFolder folder;
  folder.Write("export.csv", table);
  auto output = Call("diagnose_run", {{"log_path", "export.csv"}}, folder.path());
  ASSERT_TRUE(output) << output.error().Text();
  EXPECT_TRUE(Has(Headline(output->structured), "first bad step 2000")) << output->structured;
}

// One long line of settings holds the words of many messages.
TEST(DiagnoseLogShapes, ADumpOfSettingsIsNoMessage) {
  std::string settings = "config: {'loss scale window': 128, ";
  for (int i = 0; i < 60; ++i) settings += "'setting_" + std::to_string(i) + "': None, ";
  settings += "'eps': 1e-08}\n";
  EXPECT_EQ(Asked(settings + Steps(1, 60))["verdict"], "healthy");
}

// What is only recognised is a name to read up, and no cause with a fix.
TEST(DiagnoseLogShapes, CasesThatShareASignAreNames) {
  std::string log;
  for (int64_t step = 1; step <= 200; ++step) {
    const double up = std::max(0.0, (static_cast<double>(step) - 100) / 100);
    log += "step " + std::to_string(step) + " loss " + std::to_string(1 + 4 * up) + "\n";
  }
  TempFolder folder;
  auto output = Call("diagnose_run", {{"log_text", log}}, folder.path());
  ASSERT_TRUE(output) << output.error().Text();
  EXPECT_TRUE(Has(output->text, "If it is this: Lower the learning rate")) << output->text;
  EXPECT_TRUE(Has(output->text, "[fp8-llm-training-less-robust], 0.16\n- The default init std"))
      << output->text;
}

// A spike is what many cases are known by: each of them alone would be a guess.
TEST(DiagnoseLogShapes, ASignThatFitsManyCasesNamesNone) {
  std::string log;
  for (int64_t step = 1; step <= 160; ++step) {
    const bool up = step >= 150;
    log += "step " + std::to_string(step) + " loss " +
           (up         ? "9.5"
            : step % 2 ? "2.02"
                       : "2.05") +
           " grad_norm " +
           (up         ? "8.0"
            : step % 2 ? "0.5"
                       : "0.6") +
           "\n";
  }
  const Json d = Asked(log);
  EXPECT_EQ(d["verdict"], "broken") << d;
  EXPECT_TRUE(d["hypotheses"].empty()) << d["hypotheses"];
}

}  // namespace
}  // namespace mpnanny::test
