// A log is called healthy only for what it shows: success, and no word of a fault.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/runs/recording.h"

namespace mpnanny::test {
namespace {

Json JudgeText(const std::string& text) {
  TempFolder folder;
  auto output = Call("diagnose_run", {{"log_text", text}}, folder.path());
  EXPECT_TRUE(output) << (output ? "" : output.error().Text());
  return output ? output->structured : Json::object();
}

bool HeadlineSays(const Json& answer, const std::string& words) {
  return answer["headline"].get<std::string>().find(words) != std::string::npos;
}

// `figure` gives what stands behind the loss of a step.
template <typename Figure>
std::string FallingLog(double fall, Figure figure, const std::string& every_tenth = "") {
  std::string text;
  for (int step = 1; step <= 100; ++step) {
    const double noise = 0.01 * ((step * 37) % 11 - 5);
    text += "step " + std::to_string(step) + " | loss " +
            std::to_string(4 - fall * (1 - std::exp(-step / 30.0)) + noise) + figure(step) + "\n";
    if (step % 10 == 0) text += every_tenth;
  }
  return text;
}
std::string NoFigure(int) { return ""; }
std::string NamedFigure(const char* name, double value) {
  return " | " + std::string(name) + " " + std::to_string(value);
}

TEST(DiagnoseEarnedTest, ALossThatStandsIsNotHealthy) {
  EXPECT_EQ(JudgeText(FallingLog(2, NoFigure))["verdict"], "healthy");
  const Json flat = JudgeText(FallingLog(0, NoFigure));
  EXPECT_EQ(flat["verdict"], "not_established") << flat;
  EXPECT_TRUE(HeadlineSays(flat, "did not fall clearly")) << flat["headline"];
  // What a score shows, the loss need not.
  const Json score = JudgeText(
      FallingLog(0, [](int step) { return NamedFigure("accuracy", 0.2 + 0.006 * step); }));
  EXPECT_EQ(score["verdict"], "healthy") << score;
  EXPECT_TRUE(HeadlineSays(score, "accuracy went from")) << score["headline"];
}

// A score that stands in lines of its own between the records counts as well.
TEST(DiagnoseEarnedTest, ScoresBetweenTheRecordsAreRead) {
  const Json nothing =
      JudgeText(FallingLog(2, NoFigure, "Testing: mean_dice : 0.000004, best_dice : 0.002\n"));
  EXPECT_EQ(nothing["verdict"], "degraded") << nothing;
  EXPECT_TRUE(HeadlineSays(nothing, "mean_dice")) << nothing["headline"];
  const Json sound = JudgeText(FallingLog(2, NoFigure, "Testing: mean_dice : 0.71\n"));
  EXPECT_EQ(sound["verdict"], "healthy") << sound;
}

TEST(DiagnoseEarnedTest, AReturnIsAScore) {
  const Json rises = JudgeText(
      FallingLog(0, [](int step) { return NamedFigure("Test_Return", 900 + 40.0 * step); }));
  EXPECT_EQ(rises["verdict"], "healthy") << rises;
}

// The loss of a critic grows with the returns, and one that grows while they fall has diverged.
TEST(DiagnoseEarnedTest, ALossThatRisesWithTheReturn) {
  const auto judged = [](double gain) {
    std::string text;
    for (int step = 1; step <= 100; ++step) {
      text += "episode " + std::to_string(step) + " avg_return " +
              std::to_string(400 + gain * step) + " loss " + std::to_string(2 + 0.4 * step) + "\n";
    }
    return JudgeText(text)["verdict"];
  };
  EXPECT_EQ(judged(3), "healthy");
  EXPECT_EQ(judged(-3), "broken");
}

TEST(DiagnoseEarnedTest, WordsOfAFaultAreHeard) {
  const std::string words = "[WARNING] NaN loss detected! Skipping batch.\n";
  const Json told = JudgeText(FallingLog(2, NoFigure, words));
  EXPECT_EQ(told["verdict"], "degraded") << told;
  EXPECT_TRUE(
      HeadlineSays(told, "in 10 lines, the first after step 10 (line 11: \"[WARNING] NaN loss"))
      << told["headline"];
  EXPECT_FALSE(HeadlineSays(told, "all finite"));
  for (const char* harmless :
       {"skip_nan_loss: True\n", "checking for nan in loss: none found\n",
        "Training stops if a nan loss is detected\n", "loss scale: inf not found yet, no skip\n"}) {
    EXPECT_EQ(JudgeText(FallingLog(2, NoFigure, harmless))["verdict"], "healthy") << harmless;
  }
}

TEST(DiagnoseEarnedTest, ALogThatEndsWithoutRoomIsBroken) {
  const std::string words = "OSError: [Errno 28] No space left on device\n";
  const Json ends = JudgeText(FallingLog(2, NoFigure) + words);
  EXPECT_EQ(ends["verdict"], "broken") << ends;
  EXPECT_TRUE(HeadlineSays(ends, "line 101")) << ends["headline"];
  // It went on.
  EXPECT_NE(JudgeText(words + FallingLog(2, NoFigure))["verdict"], "broken");
}

TEST(DiagnoseEarnedTest, ScoresThatStayAtNothing) {
  const auto at = [](double last) {
    return [last](int step) {
      return NamedFigure("seq_acc", 0) +
             NamedFigure("token_acc", step == 1 ? 0.049 : 0.066 + last * step);
    };
  };
  const Json still = JudgeText(FallingLog(2, at(1e-5)));
  EXPECT_EQ(still["verdict"], "degraded") << still;
  EXPECT_TRUE(HeadlineSays(still, "No score moves: seq_acc, token_acc")) << still["headline"];
  EXPECT_EQ(JudgeText(FallingLog(2, at(0.005)))["verdict"], "healthy") << "one of them rises";
}

TEST(DiagnoseEarnedTest, APolicyWhoseAnswersAreGone) {
  const auto answers = [](double left) {
    return [left](int step) {
      return NamedFigure("response_length/mean", step < 12 ? 1700 : left) +
             NamedFigure("critic/score/mean", step < 12 ? 0.1 : 0.1 + 0.002 * step);
    };
  };
  const Json gone = JudgeText(FallingLog(0, answers(1)));
  EXPECT_EQ(gone["verdict"], "broken") << gone;
  EXPECT_TRUE(HeadlineSays(gone, "response_length/mean")) << gone["headline"];
  EXPECT_NE(JudgeText(FallingLog(0, answers(900)))["verdict"], "broken") << "shorter, and not gone";
}

TEST(DiagnoseEarnedTest, NoGradientAndNothingLearned) {
  const auto norm = [](double value) {
    return [value](int) { return NamedFigure("grad_norm", value); };
  };
  EXPECT_EQ(JudgeText(FallingLog(0, norm(1e-6)))["verdict"], "degraded");
  EXPECT_EQ(JudgeText(FallingLog(2, norm(1e-6)))["verdict"], "healthy") << "a loss may be scaled";
}

// Every loss of batches scatters; one that does not is no longer one of them.
TEST(DiagnoseEarnedTest, ALossThatDoesNotMove) {
  const auto rests = [](double at) {
    std::string text;
    for (int step = 1; step <= 100; ++step) {
      text += "step " + std::to_string(step) + " | loss " +
              std::to_string(step < 5 ? 4.2 : at + 0.0001 * (step % 2)) + "\n";
    }
    return JudgeText(text);
  };
  const Json still = rests(3.912);
  EXPECT_EQ(still["verdict"], "degraded") << still;
  EXPECT_TRUE(HeadlineSays(still, "does not move: from step 5")) << still["headline"];
  EXPECT_NE(rests(1.2)["verdict"], "degraded") << "it may have converged";
}

TEST(DiagnoseEarnedTest, EvaluationsAlone) {
  const auto log = [](double each) {
    std::string text;
    for (int step = 0; step <= 1000; ++step) {
      text += "step:" + std::to_string(step) + "/1000 ";
      if (step % 100 == 0) text += "val_loss:" + std::to_string(10 - each * step / 100) + " ";
      text += "train_time:" + std::to_string(step * 7) + "ms\n";
    }
    return JudgeText(text);
  };
  const Json falls = log(0.5);
  EXPECT_EQ(falls["verdict"], "healthy") << falls;
  EXPECT_TRUE(HeadlineSays(falls, "no training loss")) << falls["headline"];
  EXPECT_TRUE(HeadlineSays(falls, "val_loss went from 10 to 5")) << falls["headline"];
  EXPECT_EQ(log(0)["verdict"], "not_established");
}

// Each run of a file is judged, and the answer is about the worst.
TEST(DiagnoseEarnedTest, TheWorstRunOfAFile) {
  std::string broken;
  for (int step = 1; step <= 100; ++step) {
    broken += "step " + std::to_string(step) + " | loss " +
              (step < 60 ? std::to_string(4 - 0.03 * step) : "nan") + "\n";
  }
  const Json worst = JudgeText(broken + FallingLog(2, NoFigure));
  EXPECT_EQ(worst["verdict"], "broken") << worst;
  EXPECT_TRUE(HeadlineSays(
      worst, "is read as 2 runs one after another; this is the worst, number 1 (lines 1 to"))
      << worst["headline"];
  EXPECT_EQ(worst["first_bad"]["step"], 60);
  const Json sound = JudgeText(FallingLog(2, NoFigure) + FallingLog(2, NoFigure));
  EXPECT_EQ(sound["verdict"], "healthy") << sound;
  EXPECT_TRUE(HeadlineSays(sound, "this is the last (from line 101)")) << sound["headline"];
}

// What the loss is called is said where it is not simply the loss; of several the whole is read.
TEST(DiagnoseEarnedTest, TheLossIsNamed) {
  std::string text;
  for (int step = 1; step <= 30; ++step) {
    text += "iter " + std::to_string(step) +
            ", hard_loss_metric=" + std::to_string(9.0 - step / 9.0) +
            ", full_loss_metric=" + std::to_string(5.0 - step / 10.0) + ", full_loss_num=12.5\n";
  }
  const Json answer = JudgeText(text);
  EXPECT_TRUE(HeadlineSays(answer, "the loss \"full_loss_metric\" went from 4.9 to 2"))
      << answer["headline"];
  EXPECT_TRUE(HeadlineSays(JudgeText(FallingLog(2, NoFigure)), "the loss went from"));
}

// A score of 0 throughout, and a part of the loss that ended at 0.
TEST(DiagnoseEarnedTest, NothingLearntBesideAFallingLossIsNotHealthy) {
  const auto with = [](const std::string& name, auto value) {
    return JudgeText(FallingLog(2, [&](int step) {
      return step % 20 == 0 || name != "mAP" ? NamedFigure(name.c_str(), value(step)) : "";
    }));
  };
  const Json zero = with("mAP", [](int) { return 0.0; });
  EXPECT_EQ(zero["verdict"], "degraded") << zero["headline"];
  EXPECT_TRUE(HeadlineSays(zero, "exactly 0 in each of 5 values stays mAP")) << zero["headline"];
  EXPECT_EQ(with("mAP", [](int step) { return 0.004 * step; })["verdict"], "healthy");
  const Json recall = JudgeText(FallingLog(2, [](int step) {
    return NamedFigure("accuracy", 0.9) + NamedFigure("recall", step < 9 ? 0.3 : 0.0);
  }));
  EXPECT_EQ(recall["verdict"], "not_established") << recall["headline"];
  const Json part = with("KL-Loss", [](int step) { return step < 20 ? 0.05 : 0.0; });
  EXPECT_NE(part["verdict"], "healthy") << part["headline"];
  EXPECT_TRUE(HeadlineSays(part, "exactly 0 from step 20 to the end")) << part["headline"];
  EXPECT_EQ(with("aux_loss", [](int step) { return step % 3 ? 0.05 : 0.0; })["verdict"], "healthy");
}

// A printed option is no fault, and neither is a word that is shouted.
TEST(DiagnoseEarnedTest, OptionsAndShoutsAreNoFaults) {
  const std::string options = "  init_method_std ................................. 0.02\n";
  EXPECT_EQ(JudgeText(options + FallingLog(2, NoFigure))["verdict"], "healthy");
  const Json shout = JudgeText(FallingLog(2, NoFigure, "New best policy!!!!!!!!\n"));
  EXPECT_EQ(shout["verdict"], "healthy") << shout["headline"];
}

}  // namespace
}  // namespace mpnanny::test
