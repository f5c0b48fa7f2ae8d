// diagnose_run on text logs of runs without monitor.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/runs/recording.h"

namespace mpnanny::test {
namespace {

Json DiagnoseLog(const TempFolder& folder, const Json& arguments) {
  auto output = Call("diagnose_run", arguments, folder.path());
  EXPECT_TRUE(output) << (output ? "" : output.error().Text());
  return output ? output->structured : Json::object();
}

TEST(DiagnoseLogTest, NanInEverySpelling) {
  TempFolder folder;
  for (const std::string nan :
       {"nan", "NaN", "-nan", "NAN", "tensor(nan)", "inf", "-inf", "Infinity", "1.#QNAN"}) {
    std::string log;
    for (int step = 0; step < 30; ++step) {
      log += "step=" + std::to_string(step) + " loss=" + (step < 20 ? "1.5" : nan) + " lr=1e-3\n";
    }
    const Json d = DiagnoseLog(folder, {{"log_text", log}});
    EXPECT_EQ(d["verdict"], "broken") << nan;
    EXPECT_EQ(d["first_bad"]["step"], 20) << nan;
    EXPECT_NE(d["next_measurement"].get<std::string>().find("MixedPrecisionNanny(model"),
              std::string::npos);
  }
}

TEST(DiagnoseLogTest, UsualFormats) {
  TempFolder folder;
  const std::pair<std::string, std::string> lines[] = {
      {"{'loss': 1.5, 'grad_norm': 0.7, 'learning_rate': 1e-05, 'global_step': %}",
       "{'loss': nan, 'grad_norm': nan, 'learning_rate': 1e-05, 'global_step': %}"},
      {"{\"step\": %, \"train/loss\": 1.5, \"val/loss\": 99}",
       "{\"step\": %, \"train/loss\": NaN, \"val/loss\": 99}"},
      {" iteration        %/  500000 | consumed samples: 1024 | learning rate: 6.000E-05 | lm "
       "loss: 1.5E+00 | loss scale: 4096.0 | grad norm: 0.501 |",
       " iteration        %/  500000 | consumed samples: 1024 | learning rate: 6.000E-05 | lm "
       "loss: nan | loss scale: 4096.0 | grad norm: nan |"},
      {"Epoch 3 step % loss 1.5", "Epoch 3 step % loss nan"},
      {"2026-01-01 10:00:00 INFO [train] step: %, loss: 1.5",
       "2026-01-01 10:00:00 INFO [train] step: %, loss: NaN"},
  };
  for (const auto& [good, bad] : lines) {
    std::string log = "starting\n";
    for (int step = 10; step < 40; ++step) {
      std::string line = step < 33 ? good : bad;
      line.replace(line.find('%'), 1, std::to_string(step));
      log += line + "\r\n";
    }
    const Json d = DiagnoseLog(folder, {{"log_text", log}});
    EXPECT_EQ(d["verdict"], "broken") << good;
    EXPECT_EQ(d["first_bad"]["step"], 33) << good << d["first_bad"];
  }
}

// Three to forty lines are what people paste first: no statistics can be made of them, but a loss
// that doubles is not healthy.
TEST(DiagnoseLogTest, AJumpInAFewLines) {
  TempFolder folder;
  const auto log = [](const std::vector<double>& losses) {
    std::string text;
    for (size_t i = 0; i < losses.size(); ++i) {
      text += "iteration " + std::to_string(500 + 10 * i) +
              " | lm loss: " + std::to_string(losses[i]) +
              " | loss scale: 65536.0 | grad norm: 90000.0\n";
    }
    return text;
  };
  const Json up = DiagnoseLog(folder, {{"log_text", log({3.1, 3.0, 3.05, 7.5, 8.1, 6.9})}});
  EXPECT_EQ(up["verdict"], "degraded") << up;
  EXPECT_EQ(up["first_bad"]["step"], 530);
  // A bound on a norm that is scaled supports nothing, nor does a log that begins late.
  for (const Json& hypothesis : up["hypotheses"]) {
    EXPECT_EQ(DumpJson(hypothesis).find("grad norm of"), std::string::npos) << hypothesis;
    EXPECT_NE(hypothesis["cause"], "gradscaler-state-missing-in-checkpoint");
  }
  const Json climbs = DiagnoseLog(folder, {{"log_text", log({6.4, 6.9, 8.8, 9.6, 10.2})}});
  EXPECT_EQ(climbs["verdict"], "degraded") << climbs;
  const Json unsure = DiagnoseLog(folder, {{"log_text", log({6.4, 11.4, 7.1})}});
  EXPECT_EQ(unsure["verdict"], "not_established") << unsure;
  const Json back =
      DiagnoseLog(folder, {{"log_text", log({2.2, 2.2, 5.1, 3.0, 2.3, 2.2, 2.2, 2.2})}});
  EXPECT_EQ(back["verdict"], "not_established") << back;
  EXPECT_NE(DumpJson(back).find("came back by itself"), std::string::npos) << back;
  const Json noise = DiagnoseLog(folder, {{"log_text", log({2.2, 2.6, 1.9, 2.8, 2.0, 1.7, 2.4})}});
  EXPECT_EQ(noise["verdict"], "not_established") << noise;
  EXPECT_EQ(DumpJson(noise).find("jumped"), std::string::npos) << noise;
}

TEST(DiagnoseLogTest, HealthyLogAndScaleCollapse) {
  TempFolder folder;
  std::string healthy, collapse;
  double scale = 65536;
  for (int step = 0; step < 100; ++step) {
    healthy += "step " + std::to_string(step) + " loss " + std::to_string(2.0 / (1 + step)) + "\n";
    if (step > 50) scale /= 2;
    collapse +=
        "step " + std::to_string(step) + " loss 2.0 loss_scale " + std::to_string(scale) + "\n";
  }
  EXPECT_EQ(DiagnoseLog(folder, {{"log_text", healthy}})["verdict"], "healthy");
  folder.Write("train.log", collapse);
  const Json d = DiagnoseLog(folder, {{"log_path", "train.log"}});
  EXPECT_EQ(d["verdict"], "broken") << d;
  ASSERT_FALSE(d["hypotheses"].empty());
  EXPECT_NE(d["hypotheses"][0]["cause"].get<std::string>().find("loss-scale"), std::string::npos);
}

TEST(DiagnoseLogTest, ErrorMessagesOfPyTorchAreEvidence) {
  TempFolder folder;
  const std::string log =
      "step 0 loss 1.0\nTraceback (most recent call last):\n  File \"t.py\", line 3\n"
      "ValueError: Attempting to unscale FP16 gradients.\n";
  const Json d = DiagnoseLog(folder, {{"log_text", log}});
  ASSERT_FALSE(d["hypotheses"].empty());
  EXPECT_EQ(d["hypotheses"][0]["cause"], "half-params-attempting-to-unscale");
}

// '%' is the line's number, '@' a loss that falls.
std::string Repeated(int from, int to, const std::string& line) {
  std::string log;
  for (int i = from; i < to; ++i) {
    std::string one = line;
    if (const size_t at = one.find('@'); at != std::string::npos)
      one.replace(at, 1, std::to_string(2 + std::exp(-0.1 * i)));
    if (const size_t at = one.find('%'); at != std::string::npos)
      one.replace(at, 1, std::to_string(i));
    log += one + "\n";
  }
  return log;
}

bool Says(const Json& sentences, const std::string& words) {
  for (const Json& sentence : sentences) {
    if (sentence.get<std::string>().find(words) != std::string::npos) return true;
  }
  return false;
}

TEST(DiagnoseLogTest, AQuestionIsUsedOrSaidNotToBe) {
  TempFolder folder;
  std::string log;
  for (int step = 0; step < 60; ++step) {
    log += "step " + std::to_string(step) + " loss " + std::to_string(2.0 - 0.02 * step) + "\n";
  }
  const std::string unused = "The question was not used";
  const Json plain = DiagnoseLog(folder, {{"log_text", log}});
  EXPECT_FALSE(Says(plain["limits"], unused)) << plain["limits"];
  const Json vague = DiagnoseLog(folder, {{"log_text", log}, {"question", "why is it slow?"}});
  EXPECT_TRUE(Says(vague["limits"], unused)) << vague["limits"];
  EXPECT_EQ(vague["verdict"], plain["verdict"]);
  // A warning that is quoted ended nothing.
  const Json warned = DiagnoseLog(
      folder, {{"log_text", log},
               {"question", "I get RuntimeWarning: overflow encountered in reduce, is that bad?"}});
  EXPECT_FALSE(Says(warned["limits"], unused)) << warned["limits"];
  EXPECT_NE(warned["verdict"], "broken") << warned["headline"];
  EXPECT_EQ(warned["headline"].get<std::string>().find("known error"), std::string::npos);
}

TEST(DiagnoseLogTest, NanNormsAtTheEndAreNoSearchForAScale) {
  TempFolder folder;
  const std::string good = Repeated(0, 20, "{'loss': @, 'grad_norm': 1.0, 'epoch': 0.5}");
  for (const int bad : {1, 8}) {
    const std::string log = good + Repeated(0, bad, "{'loss': 0.0, 'grad_norm': nan}");
    const Json d = DiagnoseLog(folder, {{"log_text", log}});
    EXPECT_EQ(d["verdict"], "broken") << d["headline"];
    EXPECT_EQ(d["first_bad"]["step"], 20);
    EXPECT_FALSE(d["hypotheses"].empty());
  }
  const std::string two = good + Repeated(0, 2, "{'loss': 2.0, 'grad_norm': inf}");
  EXPECT_EQ(DiagnoseLog(folder, {{"log_text", two}})["verdict"], "broken");
  // One skip at the end is what growing the scale costs, 8 at the beginning what finding it does.
  const std::string skip = "Gradient overflow. Skipping step, reducing loss scale to 1024\n";
  EXPECT_EQ(DiagnoseLog(folder, {{"log_text", Repeated(0, 20, "step % loss @") + skip}})["verdict"],
            "healthy");
  EXPECT_EQ(DiagnoseLog(folder, {{"log_text", Repeated(0, 8, skip) + good}})["verdict"], "healthy");
}

TEST(DiagnoseLogTest, ALineThatTellsOfAFaultIsNotHealthy) {
  TempFolder folder;
  const std::string good = Repeated(0, 60, "step % loss @ loss_scale=1024 lr=1e-05");
  // "loss scale* e-0" fits these lines by their learning rate.
  EXPECT_EQ(DiagnoseLog(folder, {{"log_text", good}})["verdict"], "healthy");
  const Json d = DiagnoseLog(
      folder, {{"log_text", good + "RuntimeError: Function 'SqrtBackward0' returned nan values"}});
  EXPECT_NE(d["verdict"], "healthy");
  EXPECT_FALSE(d["hypotheses"].empty());
}

TEST(DiagnoseLogTest, WordsThatBeginLikeNumbersAreNone) {
  TempFolder folder;
  for (const std::string line : {"loss: InfoNCE", "loss = inf_guard(x)", "loss: nan2zero"}) {
    const Json d =
        DiagnoseLog(folder, {{"log_text", line + "\n" + Repeated(0, 70, "step % loss @")}});
    EXPECT_EQ(d["verdict"], "healthy") << line << d["headline"];
  }
}

TEST(DiagnoseLogTest, TheTotalLossIsReadWhateverStandsBeforeIt) {
  TempFolder folder;
  const std::string good = Repeated(0, 5, "iter % loss_cls: 0.9 loss_bbox: 0.6 loss: 1.5");
  Json d =
      DiagnoseLog(folder, {{"log_text", good + "iter 5 loss_cls: 0.9 loss_bbox: 0.6 loss: nan"}});
  EXPECT_EQ(d["verdict"], "broken") << d["headline"];
  EXPECT_EQ(d["first_bad"]["step"], 5);
  d = DiagnoseLog(folder, {{"log_text", good + "iter 5 loss_cls: nan loss_bbox: 0.6 loss: 1.5"}});
  EXPECT_EQ(d["first_bad"]["step"], 5) << d["headline"];
  EXPECT_NE(d["first_bad"]["what"].get<std::string>().find("part"), std::string::npos);
}

TEST(DiagnoseLogTest, StepsThatBeginAnewOverwriteNothing) {
  TempFolder folder;
  std::string log;
  for (int epoch = 0; epoch < 6; ++epoch) {
    for (int step = 0; step < 100; step += 10) {
      log += "epoch " + std::to_string(epoch) + " step " + std::to_string(step) + " loss " +
             (epoch < 4 ? "2.0" : "nan") + "\n";
    }
  }
  const Json d = DiagnoseLog(folder, {{"log_text", log}});
  EXPECT_EQ(d["verdict"], "broken");
  EXPECT_EQ(d["first_bad"]["step"], 400);
  EXPECT_TRUE(Says(d["limits"], "begin anew")) << d["limits"];
}

TEST(DiagnoseLogTest, ALossInWords) {
  TempFolder folder;
  const std::string good = Repeated(0, 5, "step % loss @");
  for (const std::string end :
       {"Loss is nan, stopping training", "loss became inf", "Non-finite loss, aborting"}) {
    const Json d = DiagnoseLog(folder, {{"log_text", good + end}});
    EXPECT_EQ(d["verdict"], "broken") << end;
    EXPECT_EQ(d["first_bad"]["step"], 5) << end;
  }
  EXPECT_EQ(DiagnoseLog(folder, {{"log_text", "stops if the loss is nan\n" +
                                                  Repeated(0, 20, "step % loss @")}})["verdict"],
            "healthy");
}

TEST(DiagnoseLogTest, AnErrorIsTheHeadline) {
  TempFolder folder;
  const Json d =
      DiagnoseLog(folder, {{"log_text",
                            "RuntimeError: unscale_() has already been called on this optimizer "
                            "since the last update()."}});
  EXPECT_EQ(d["verdict"], "broken");
  EXPECT_NE(d["headline"].get<std::string>().find("unscale_() has already"), std::string::npos);
  EXPECT_FALSE(Says(d["limits"], "loss scale")) << d["limits"];
}

TEST(DiagnoseLogTest, EveryOverflowOfAScalerIsAStep) {
  TempFolder folder;
  std::string log;
  for (int i = 0; i < 18; ++i) {
    log +=
        "OVERFLOW! Rank 0 Skipping step. Attempted loss scale: " + std::to_string(1 << (20 - i)) +
        ", reducing to " + std::to_string(1 << (19 - i)) + "\n";
  }
  const Json d = DiagnoseLog(folder, {{"log_text", log}});
  EXPECT_EQ(d["verdict"], "broken") << d["headline"];
  EXPECT_EQ(d["timeline"].back()["step"], 17) << d["timeline"];
  EXPECT_NE(d["timeline"].back()["what"].get<std::string>().find("loss scale 8"), std::string::npos)
      << d["timeline"];
}

TEST(DiagnoseLogTest, ThousandsSeparatorsAndCsv) {
  TempFolder folder;
  Json d = DiagnoseLog(
      folder, {{"log_text", "step 1,000 loss 2.0\nstep 2,000 loss 1.9\nstep 3,000 loss nan\n"}});
  EXPECT_EQ(d["first_bad"]["step"], 3000);
  d = DiagnoseLog(folder,
                  {{"log_text", "step,loss_cls,loss,lr\n10,1,2.0,0.1\n20,1,,0.1\n30,1,nan,0.1"}});
  EXPECT_EQ(d["verdict"], "broken");
  EXPECT_EQ(d["first_bad"]["step"], 30);
}

TEST(DiagnoseLogTest, SkippedStepsInARowAreNotHealthy) {
  TempFolder folder;
  std::string log = "step 320 loss 1.67\n";
  for (int scale = 64; scale > 2; scale /= 2) {
    log += "OVERFLOW! Rank 0 Skipping step. Attempted loss scale: " + std::to_string(scale) +
           ", reducing to " + std::to_string(scale / 2) + "\n";
  }
  EXPECT_EQ(DiagnoseLog(folder, {{"log_text", log + "step 400 loss 2.05\n"}})["verdict"],
            "degraded");
}

TEST(DiagnoseLogTest, TheSearchForAScaleIsToldApartFromLaterSkips) {
  TempFolder folder;
  std::string log;
  const auto overflow = [&](int scale) {
    log += "OVERFLOW! Rank 0 Skipping step. Attempted loss scale: " + std::to_string(scale) +
           ", reducing to " + std::to_string(scale / 2) + "\n";
  };
  for (int scale = 65536; scale > 16384; scale /= 2) overflow(scale);
  for (int step = 0; step < 60; ++step) {
    log += "step=" + std::to_string(step + 2) + " loss: 2.0\n";
    if (step % 2 == 1) overflow(16384);
  }
  const Json d = DiagnoseLog(folder, {{"log_text", log}});
  EXPECT_NE(d["headline"].get<std::string>().find(
                "(2 while the scale was searched at the start, 30 later)"),
            std::string::npos)
      << d["headline"];
  EXPECT_NE(d["timeline"][0]["what"].get<std::string>().find("loss scale 65536"), std::string::npos)
      << d["timeline"];
}

TEST(DiagnoseLogTest, AnEvaluationsLossIsToldAtItsStep) {
  TempFolder folder;
  std::string log;
  for (int step = 10; step <= 400; step += 10) {
    log += "{\"loss\": 0.0, \"learning_rate\": 1e-5, \"step\": " + std::to_string(step) + "}\n";
    if (step % 200 == 0) log += "{\"eval_loss\": NaN, \"step\": " + std::to_string(step) + "}\n";
  }
  folder.Write("log.jsonl", log);
  const Json d = DiagnoseLog(folder, {{"log_path", folder.File("log.jsonl")}});
  const auto what = d["first_bad"]["what"].get<std::string>();
  EXPECT_NE(what.find("is NaN, first at step 200"), std::string::npos) << what;
  EXPECT_NE(what.find("exactly 0 from step 10 on"), std::string::npos) << what;
}

TEST(DiagnoseLogTest, TwoLossesAreTooFewToBeHealthy) {
  TempFolder folder;
  const Json d = DiagnoseLog(
      folder, {{"log_text", "lr 0.1\nstep 10 loss 1.67\nstep 20 loss 1.5\nstep 30 lr 0.1\n"}});
  EXPECT_EQ(d["verdict"], "not_established") << d["headline"];
}

TEST(DiagnoseLogTest, FiguresThatManyFaultsGiveProveNoCase) {
  TempFolder folder;
  std::string log;
  for (int step = 50; step < 300; step += 50) {
    const std::string bad = step == 150 ? "nan" : "0.5";
    log += "mmdet - INFO - Epoch [1][" + std::to_string(step) +
           "/294]\tlr: 5.000e-03, loss_cls: 0.2, loss_bbox: " + bad + ", loss: " + bad + "\n";
  }
  const Json d = DiagnoseLog(folder, {{"log_text", log}});
  EXPECT_EQ(d["first_bad"]["step"], 150);
  for (const Json& each : d["hypotheses"]) EXPECT_LE(each["confidence"].get<double>(), 0.4) << each;
}

TEST(DiagnoseLogTest, AScalerAtItsMinimumIsBroken) {
  TempFolder folder;
  std::string log;
  for (int scale = 65536; scale > 0; scale /= 2) {
    log += "OVERFLOW! Skipping step. Attempted loss scale: " + std::to_string(scale) +
           ", reducing to " + std::to_string(std::max(scale / 2, 1)) + "\n";
  }
  EXPECT_EQ(DiagnoseLog(folder, {{"log_text", log}})["verdict"], "broken");
  const Json d = DiagnoseLog(
      folder, {{"log_text", log.substr(0, log.find("2048")) + "\nException: Current loss scale "
                                                              "already at minimum"}});
  EXPECT_EQ(d["verdict"], "degraded") << d["headline"];
}

TEST(DiagnoseLogTest, SentencesOfTheCodeEndOnce) {
  TempFolder folder;
  folder.Write("train.py",
               "import torch\ndef step(model, x, scaler, opt):\n"
               "    with torch.autocast('cuda', torch.float16):\n        loss = model(x)\n"
               "    scaler.scale(loss).backward()\n"
               "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
               "    scaler.step(opt)\n    scaler.update()\n");
  const Json d = DiagnoseLog(folder, {{"log_text", "step 1 loss nan"}, {"paths", {"train.py"}}});
  bool code = false;
  for (const Json& h : d["hypotheses"]) {
    for (const Json& sentence : h["evidence"]) {
      code = code || sentence.get<std::string>().starts_with("the code:");
      EXPECT_FALSE(sentence.get<std::string>().ends_with("..")) << sentence;
    }
  }
  EXPECT_TRUE(code) << d["hypotheses"];
}

TEST(DiagnoseLogTest, HostileLogs) {
  TempFolder folder;
  std::string noise(200'000, '\0');
  uint32_t state = 5;
  for (char& c : noise) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  (void)Call("diagnose_run", {{"log_text", noise}}, folder.path());
  (void)Call("diagnose_run", {{"log_text", std::string(1'000'000, '=')}}, folder.path());
  (void)Call("diagnose_run", {{"log_text", "loss="}}, folder.path());
  (void)Call("diagnose_run", {{"log_text", "loss=-"}}, folder.path());
  (void)Call("diagnose_run", {{"log_text", "loss: tensor("}}, folder.path());
  (void)Call("diagnose_run", {{"log_text", "step=1e300 loss=1e999 lr=+"}}, folder.path());
  std::string huge;
  for (int i = 0; i < 3000; ++i)
    huge += "loss " + std::string(500, 'a' + i % 26) + " step 9 loss 1\n";
  (void)Call("diagnose_run", {{"log_text", huge}}, folder.path());
}

}  // namespace
}  // namespace mpnanny::test
