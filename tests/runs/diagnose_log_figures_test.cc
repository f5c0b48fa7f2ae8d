// What a log's own figures say against or for a healthy run: a loss scale of 1, early spikes,
// losses that are logged as 0, evaluations.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/runs/recording.h"

namespace mpnanny::test {
namespace {

Json VerdictOf(const TempFolder& folder, const Json& arguments) {
  auto output = Call("diagnose_run", arguments, folder.path());
  EXPECT_TRUE(output) << (output ? "" : output.error().Text());
  return output ? output->structured : Json::object();
}

// Megatron prints "loss scale: 1.0" in BF16.
TEST(DiagnoseLogFiguresTest, AConstantScaleOfOneIsHealthy) {
  TempFolder folder;
  std::string log;
  for (int step = 1; step <= 60; ++step) {
    log += " iteration " + std::to_string(step) + "/ 60 | learning rate: 6.0E-06 | lm loss: " +
           std::to_string(6 + 6 * std::exp(-0.05 * step)) +
           " | loss scale: 1.0 | grad norm: 1.3 | number of skipped iterations: 0 | number of nan "
           "iterations: 0 |\n";
  }
  const Json d = VerdictOf(folder, {{"log_text", log}});
  EXPECT_EQ(d["verdict"], "healthy") << d;
  EXPECT_NE(d["headline"].get<std::string>().find("in 60 logged steps"), std::string::npos) << d;
}

TEST(DiagnoseLogFiguresTest, AnEarlySpikeOfALongLogIsTold) {
  TempFolder folder;
  std::string log;
  for (int step = 1; step <= 200; ++step) {
    const double hump = std::max(0.0, 1 - std::fabs(step - 18) / 4.0);
    log += "step " + std::to_string(step) + " | loss " +
           std::to_string((6 + 6 * std::exp(-0.03 * step)) * (1 + 0.8 * hump)) + " | grad_norm " +
           std::to_string(1.3 + 22 * hump) + "\n";
  }
  const Json d = VerdictOf(folder, {{"log_text", log}});
  EXPECT_EQ(d["verdict"], "healthy") << d;
  const std::string headline = d["headline"];
  EXPECT_NE(headline.find("(step 18), the gradient norm from 1.3 to 23.3"), std::string::npos)
      << headline;
  EXPECT_NE(DumpJson(d["timeline"]).find("the loss rises from about"), std::string::npos) << d;
}

// HF's Trainer logs a training loss that is NaN as 0; the evaluation has no such filter.
TEST(DiagnoseLogFiguresTest, NothingBadStandsBesideHealthy) {
  TempFolder folder;
  const auto log = [](const std::string& loss, const std::string& more, const std::string& end) {
    std::string text;
    for (int step = 10; step <= 400; step += 10) {
      text += "{\"current_steps\": " + std::to_string(step) + ", \"loss\": " + loss + more + "}\n";
      if (step % 200 == 0) {
        text += "{\"current_steps\": " + std::to_string(step) + ", \"eval_loss\": " + end + "}\n";
      }
    }
    return text;
  };
  const auto ask = [&](const std::string& text) {
    folder.Write("log.jsonl", text);
    return VerdictOf(folder, {{"run", "log.jsonl"}});
  };
  const Json nan = ask(log("0.0", "", "NaN"));
  EXPECT_EQ(nan["verdict"], "broken") << nan;
  EXPECT_EQ(nan["first_bad"]["step"], 10) << nan;
  const std::string headline = nan["headline"];
  EXPECT_NE(headline.find("eval_loss) is NaN, first at step 200, in 2 of 2 evaluations"),
            std::string::npos)
      << headline;
  EXPECT_NE(headline.find("logged as exactly 0"), std::string::npos) << headline;
  const Json beside = ask(log("1.5", "", "NaN"));
  EXPECT_EQ(beside["verdict"], "broken") << beside;
  EXPECT_EQ(beside["first_bad"]["step"], 200) << beside;
  const Json zero = ask(log("0.0", "", "1.5"));
  EXPECT_EQ(zero["verdict"], "not_established") << zero;
  EXPECT_NE(zero["headline"].get<std::string>().find("logging_nan_inf_filter"), std::string::npos);
  // A policy's loss is 0 by construction, and its gradients are not.
  const Json policy = ask(log("0.0", ", \"grad_norm\": 0.7", "1.5"));
  EXPECT_EQ(policy["verdict"], "not_established") << policy;
  EXPECT_EQ(DumpJson(policy).find("logging_nan_inf_filter"), std::string::npos) << policy;
}

// `mpnanny run … 2>&1 | tee train.log`: the monitor's summary names the first loss again, its
// verdict names faults.
TEST(DiagnoseLogFiguresTest, TheMonitorsOwnLinesAreNotTheTrainings) {
  TempFolder folder;
  std::string text = "mpnanny: watching 3 modules, recording into logs/metrics.db#1\n";
  for (int step = 0; step < 30; ++step) {
    text += "step " + std::to_string(step) + " loss " + std::to_string(2 - 0.05 * step) + "\n";
  }
  text +=
      "mpnanny: 30 steps in 1.2 s, loss 9.5 -> nan\n"
      "mpnanny: DEGRADED: The cause is not established: RuntimeError: Function 'SqrtBackward0' "
      "returned nan values in its 0th output.\n";
  folder.Write("tee.log", text);
  const Json d = VerdictOf(folder, {{"run", "tee.log"}});
  EXPECT_EQ(d["verdict"], "healthy") << d;
  EXPECT_NE(d["headline"].get<std::string>().find("from 2 to 0.55"), std::string::npos) << d;
  EXPECT_NE(DumpJson(d["limits"]).find("mpnanny diagnose logs/metrics.db#1"), std::string::npos)
      << d;
}

// What is said of a log is what it shows: how the loss went, what was judged, where it ends.
TEST(DiagnoseLogFiguresTest, ALogIsToldAsItIs) {
  TempFolder folder;
  const auto log = [](int steps, const auto& loss, const auto& norm) {
    std::string text;
    for (int step = 0; step < steps; ++step) {
      text += "step " + std::to_string(step) + " | loss " + loss(step) + " | grad_norm " +
              norm(step) + "\n";
    }
    return text;
  };
  const auto calm = [](int step) { return std::to_string(1.0 + 0.01 * (step % 3)); };
  const auto flat = [](int step) { return std::to_string(2.3026 + 0.0001 * (step % 4)); };
  Json d = VerdictOf(folder, {{"log_text", log(60, flat, calm)}});
  EXPECT_NE(DumpJson(d["headline"])
                .find("from step 0 to the end it stays between 2.3026 and 2.3029, in 60 values"),
            std::string::npos)
      << d;
  EXPECT_NE(DumpJson(d["tested"]).find("the gradient norm"), std::string::npos) << d;

  const auto falls = [](int step) { return std::to_string(3 - 0.01 * step); };
  d = VerdictOf(folder, {{"log_text", log(60, falls, calm)}});
  EXPECT_EQ(DumpJson(d["headline"]).find("did not fall"), std::string::npos) << d;

  // Of a short record the first and the last values are the same ones.
  d = VerdictOf(folder, {{"log_text", log(20, falls, calm)}});
  EXPECT_EQ(DumpJson(d["headline"]).find("did not fall"), std::string::npos) << d;

  const auto late = [&](int step) { return step < 59 ? falls(step) : std::string("nan"); };
  d = VerdictOf(folder, {{"log_text", log(60, late, calm)}});
  EXPECT_NE(DumpJson(d["headline"]).find("The record ends there."), std::string::npos) << d;
  const auto long_ago = [&](int step) { return step < 40 ? falls(step) : std::string("nan"); };
  d = VerdictOf(folder, {{"log_text", log(60, long_ago, calm)}});
  EXPECT_NE(DumpJson(d["headline"]).find("It did not recover."), std::string::npos) << d;
}

TEST(DiagnoseLogFiguresTest, ARiseInTheMiddleIsNotEarly) {
  TempFolder folder;
  const auto headline = [&](int at) {
    std::string text;
    for (int step = 1; step <= 120; ++step) {
      const bool up = step >= at && step < at + 4;
      text += "step " + std::to_string(step) + " | loss " +
              std::to_string(5 * std::exp(-0.01 * step) + (up ? 4 : 0)) + " | grad_norm " +
              std::to_string(step == at ? 40.0 : 0.7) + "\n";
    }
    return VerdictOf(folder, {{"log_text", text}})["headline"].get<std::string>();
  };
  EXPECT_NE(headline(20).find("Early in the run, from step 20"), std::string::npos) << headline(20);
  EXPECT_NE(headline(70).find("From step 70"), std::string::npos) << headline(70);
}

}  // namespace
}  // namespace mpnanny::test
