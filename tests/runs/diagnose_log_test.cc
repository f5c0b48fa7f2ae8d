// diagnose_run on text logs of runs without monitor.
#include <gtest/gtest.h>

#include "tests/runs/recording.h"

namespace mpnanny::test {
namespace {

Json Diagnose(const TempFolder& folder, const Json& arguments) {
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
    const Json d = Diagnose(folder, {{"log_text", log}});
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
    const Json d = Diagnose(folder, {{"log_text", log}});
    EXPECT_EQ(d["verdict"], "broken") << good;
    EXPECT_EQ(d["first_bad"]["step"], 33) << good << d["first_bad"];
  }
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
  EXPECT_EQ(Diagnose(folder, {{"log_text", healthy}})["verdict"], "healthy");
  folder.Write("train.log", collapse);
  const Json d = Diagnose(folder, {{"log_path", "train.log"}});
  EXPECT_EQ(d["verdict"], "broken") << d;
  ASSERT_FALSE(d["hypotheses"].empty());
  EXPECT_NE(d["hypotheses"][0]["cause"].get<std::string>().find("loss-scale"), std::string::npos);
}

TEST(DiagnoseLogTest, ErrorMessagesOfPyTorchAreEvidence) {
  TempFolder folder;
  const std::string log =
      "step 0 loss 1.0\nTraceback (most recent call last):\n  File \"t.py\", line 3\n"
      "ValueError: Attempting to unscale FP16 gradients.\n";
  const Json d = Diagnose(folder, {{"log_text", log}});
  ASSERT_FALSE(d["hypotheses"].empty());
  EXPECT_EQ(d["hypotheses"][0]["cause"], "half-params-attempting-to-unscale");
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
