// diagnose_run on recordings of known failures: the verdict, the place and the cause are those that
// were recorded.
#include <gtest/gtest.h>

#include <cmath>

#include "engines/cases/signal.h"
#include "engines/diagnosis/cases/signal_words.h"
#include "tests/runs/recording.h"
#include "tests/runs/same_figures.h"

namespace mpnanny::test {
namespace {

Json Diagnose(const TempFolder& folder, const Json& arguments, const DataFiles* data = nullptr) {
  auto output = data ? Call("diagnose_run", arguments, folder.path(), *data)
                     : Call("diagnose_run", arguments, folder.path());
  EXPECT_TRUE(output) << (output ? "" : output.error().Text());
  if (!output) return Json::object();
  const Json& d = output->structured;
  EXPECT_FALSE(output->text.empty());
  EXPECT_FALSE(d["next_measurement"].get<std::string>().empty());
  double last = 1;
  for (const Json& h : d["hypotheses"]) {
    EXPECT_LE(h["confidence"], last);
    EXPECT_FALSE(h["evidence"].empty()) << h;
    EXPECT_FALSE(h["fix"].get<std::string>().empty()) << h;
    last = h["confidence"];
  }
  return d;
}

// A healthy FP16 run with a start-up search for the scale, growth skips and sampled statistics.
void HealthyFp16(Recording& db, int64_t steps) {
  const int64_t wo = db.Layer("blocks.0.ffn.wo");
  for (int64_t step = 0; step < steps; ++step) {
    const bool startup = step < 4;
    const bool growth_skip = step == steps / 2;
    const uint32_t skip = startup || growth_skip ? 4 | 8 | 16 : 0;
    db.Step(step, {.loss = 3.0 * std::exp(-0.01 * static_cast<double>(step)) + 0.2,
                   .scale = startup ? 65536.0 / std::pow(2, step) : 4096.0,
                   .grad_norm = 1.0,
                   .flags = skip | (step % 10 == 0 ? 64u : 0u)});
    if (step % 10 == 0) {
      for (int64_t kind = 0; kind < 5; ++kind) db.Stat(step, wo, {.kind = kind, .absmax = 5.0});
    }
  }
}

TEST(DiagnoseTest, HealthyRunIsCalledHealthy) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("healthy");
  HealthyFp16(db, 300);
  // Warnings that do not decide, and a scaler's overflow that it got over.
  db.Alert(100,
           {.type = "UNDERFLOW", .severity = "WARNING", .phase = "forward", .layer = 1, .kind = 1});
  db.Alert(150, {.type = "INF", .phase = "backward", .layer = 1, .kind = 3});
  const Json d = Diagnose(folder, {{"run", "m.db"}});
  EXPECT_EQ(d["verdict"], "healthy") << d;
  EXPECT_TRUE(d["first_bad"].is_null());
  EXPECT_TRUE(d["hypotheses"].empty());
}

// The feed-forward projection grows by 7 % a step until FP16 ends.
void ForwardOverflow(Recording& db, int64_t bad) {
  const int64_t norm = db.Layer("blocks.0.norm2", "model.py:20", "RMSNorm");
  const int64_t wo = db.Layer("blocks.0.ffn.wo", "model.py:62");
  const int64_t head = db.Layer("head", "model.py:90");
  for (int64_t step = 0; step < bad + 40; ++step) {
    const bool broken = step >= bad;
    db.Step(step,
            {.loss = broken ? kNan : 2.0 - 0.005 * static_cast<double>(step),
             .scale = broken ? 1024.0 / std::pow(2.0, static_cast<double>(step - bad)) : 1024.0,
             .grad_norm = broken ? kNan : 1.0,
             .flags = broken           ? 4u | 8u | 16u
                      : step % 10 == 0 ? 64u
                                       : 0u});
    if (step % 10 == 0 && !broken) {
      const double value = 65504 * std::pow(1.07, static_cast<double>(step - bad) + 0.5);
      db.Stat(step, norm, {.kind = 1, .absmax = 3.0});
      db.Stat(step, wo, {.kind = 0, .absmax = 30.0});
      db.Stat(step, wo, {.kind = 1, .absmax = value});
      db.Stat(step, head, {.kind = 1, .absmax = 4.0});
    }
  }
  db.Alert(bad, {.type = "NAN", .layer = head, .kind = 1, .producer = 0});
  db.Alert(bad, {.type = "INF",
                 .layer = wo,
                 .kind = 1,
                 .producer = 1,
                 .value = 12,
                 .message = "12 of 1024 elements are Inf"});
  db.Alert(bad, {.type = "LOSS_NAN", .phase = "loss", .producer = 0});
  db.Alert(bad + 20, {.type = "LOSS_SCALE_COLLAPSE", .phase = "optimizer"});
}

TEST(DiagnoseTest, ForwardOverflowNamesProducerGrowthAndCase) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("broken");
  ForwardOverflow(db, 125);
  auto output = Call("diagnose_run", {{"run", "m.db"}}, folder.path());
  ASSERT_TRUE(output);
  const Json& d = output->structured;
  EXPECT_EQ(d["verdict"], "broken");
  EXPECT_EQ(d["first_bad"]["step"], 125);
  EXPECT_EQ(d["first_bad"]["phase"], "forward");
  EXPECT_EQ(d["first_bad"]["layer"], "blocks.0.ffn.wo");
  EXPECT_EQ(d["first_bad"]["source"], "model.py:62");
  EXPECT_EQ(d["first_bad"]["place"], "producer");
  EXPECT_EQ(d["first_bad"]["last_clean_sample"], 120);
  EXPECT_GE(d["first_bad"]["carrier_count"], 2);
  ASSERT_FALSE(d["hypotheses"].empty());
  EXPECT_EQ(d["hypotheses"][0]["cause"], "t5-ffn-wo-fp16-overflow")
      << DumpJsonPretty(d["hypotheses"]);
  // The growth to the limit is recorded, which the case names; no shadow step shows that FP32 cures
  // it.
  EXPECT_EQ(d["hypotheses"][0]["basis"], "measured");
  EXPECT_EQ(d["hypotheses"][0]["confidence"], 0.9);
  EXPECT_EQ(d["first_bad"]["precision"], "not_tested");
  // The growth that was recorded (7 % a step) and the limit stand in the text.
  EXPECT_NE(output->text.find("doubling about every 10 steps"), std::string::npos) << output->text;
  EXPECT_NE(output->text.find("65504"), std::string::npos);
  EXPECT_NE(output->text.find("model.py:62"), std::string::npos);
  // The scale's collapse follows from it and must not be taken for the cause.
  for (const Json& h : d["hypotheses"]) {
    if (h["cause"] != "loss-scale-stuck-at-one") continue;
    EXPECT_LT(h["confidence"], 0.4);
  }
}

TEST(DiagnoseTest, WithoutAlertsThePlaceComesFromTheSampleOrStaysOpen) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("sampled");
  const int64_t a = db.Layer("a");
  const int64_t b = db.Layer("b");
  for (int64_t step = 0; step < 21; ++step) {
    const bool bad = step == 20;
    db.Step(step, {.loss = bad ? kNan : 1.0});
    if (step % 10) continue;
    db.Stat(step, a, {.kind = 1});
    db.Stat(step, b, {.kind = 0});
    db.Stat(step, b, {.kind = 1, .nan = bad ? 3 : 0});
  }
  Json d = Diagnose(folder, {{"run", "m.db#1"}});
  EXPECT_EQ(d["first_bad"]["layer"], "b");
  EXPECT_EQ(d["first_bad"]["place"], "producer");
  EXPECT_EQ(d["first_bad"]["phase"], "forward");

  db.Run("between samples");
  const int64_t c = db.Layer("c");
  for (int64_t step = 0; step < 18; ++step) {
    db.Step(step, {.loss = step == 17 ? kNan : 1.0});
    if (step % 10 == 0) db.Stat(step, c, {.kind = 1, .absmax = 50000.0});
  }
  d = Diagnose(folder, {{"run", "m.db#2"}});
  EXPECT_EQ(d["first_bad"]["step"], 17);
  EXPECT_TRUE(d["first_bad"]["layer"].is_null());
  EXPECT_EQ(d["first_bad"]["place"], "not_known");
  EXPECT_EQ(d["first_bad"]["last_clean_sample"], 10);
  bool said = false;
  for (const Json& limit : d["limits"]) {
    said = said || limit.get<std::string>().find("not known") != std::string::npos;
  }
  EXPECT_TRUE(said) << d["limits"];
}

TEST(DiagnoseTest, LastStepsOnlyInTheRing) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("killed", "", "fp16", 1.6e9);
  const int64_t wo = db.Layer("layers.3.mlp.down_proj", "net.py:5");
  for (int64_t step = 0; step < 30; ++step) db.Step(step, {.loss = 1.0, .scale = 1024.0});
  RingFile ring(folder.File("m.db"), 1, 1.6e9);
  for (int64_t step = 20; step < 60; ++step) {
    const bool bad = step >= 55;
    ring.Step(step, bad ? kNan : 1.0, bad ? 1 : 0, bad ? static_cast<int32_t>(wo) : -1);
  }
  for (int64_t step = 40; step < 55; ++step) ring.Sample(step, wo, 1, 60000.0);
  ring.Write();
  const Json d = Diagnose(folder, {{"run", "m.db"}});
  EXPECT_EQ(d["verdict"], "broken");
  EXPECT_EQ(d["first_bad"]["step"], 55);
  EXPECT_EQ(d["first_bad"]["layer"], "layers.3.mlp.down_proj");
  EXPECT_EQ(d["first_bad"]["source"], "net.py:5");
  EXPECT_EQ(d["first_bad"]["last_clean_sample"], 54);
  ASSERT_FALSE(d["hypotheses"].empty());
}

TEST(DiagnoseTest, DataNanIsNotPrecision) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("data", "closed", "bf16");
  const int64_t embed = db.Layer("embed");
  for (int64_t step = 0; step < 60; ++step) db.Step(step, {.loss = step >= 50 ? kNan : 1.0});
  db.Alert(50, {.type = "NAN", .phase = "data", .layer = embed, .kind = 0, .producer = 1});
  db.Alert(50, {.type = "NAN", .phase = "forward", .layer = embed, .kind = 1, .producer = 0});
  const Json d = Diagnose(folder, {{"run", "m.db"}});
  EXPECT_EQ(d["verdict"], "broken");
  EXPECT_EQ(d["first_bad"]["phase"], "data");
  ASSERT_FALSE(d["hypotheses"].empty());
  EXPECT_EQ(d["hypotheses"][0]["cause"], "non-finite-input-data")
      << DumpJsonPretty(d["hypotheses"]);
}

TEST(DiagnoseTest, LossBornNanPointsAtTheLoss) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("loss", "closed", "fp32");
  const int64_t head = db.Layer("head");
  for (int64_t step = 0; step < 40; ++step) {
    db.Step(step, {.loss = step >= 30 ? kNan : 1.0});
    if (step % 10 == 0) db.Stat(step, head, {.kind = 1, .dtype = 1});
  }
  db.Alert(30, {.type = "LOSS_NAN", .phase = "loss", .producer = 1});
  const Json d = Diagnose(folder, {{"run", "m.db"}});
  EXPECT_EQ(d["first_bad"]["phase"], "loss");
  EXPECT_EQ(d["first_bad"]["place"], "producer");
  ASSERT_FALSE(d["hypotheses"].empty());
  EXPECT_EQ(d["hypotheses"][0]["cause"], "log-or-division-of-invalid-input")
      << DumpJsonPretty(d["hypotheses"]);
}

// A scaler that skips a step now and then, for gradients of its own scale, has not seen the loss
// overflow: that begins where the loss is not finite.
TEST(DiagnoseTest, ASkippedStepWithAFiniteLossIsNotTheLosssOverflow) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("scaled", "closed", "fp16");
  const int64_t head = db.Layer("head");
  for (int64_t step = 0; step < 80; ++step) {
    const bool skipped = step == 20 || step == 30 || step >= 40;
    db.Step(step,
            {.loss = step >= 40 ? kInf : 1.0, .scale = 1024.0, .flags = skipped ? 4u | 8u : 0u});
    if (step % 10 == 0) db.Stat(step, head, {.kind = 1, .dtype = 1});
  }
  db.Alert(40, {.type = "LOSS_NAN", .phase = "loss", .producer = 1});
  const auto first_bad = [&] { return Diagnose(folder, {{"run", "m.db"}})["first_bad"]; };
  EXPECT_EQ(first_bad()["phase"], "loss");
  EXPECT_EQ(first_bad()["step"], 40) << DumpJsonPretty(first_bad());
  // Of a logarithm the gradient, 1 / p, overflows before the loss does.
  for (const auto& [op, step] : {std::pair("sum", 40), std::pair("log", 20)}) {
    db.Execute(std::string("UPDATE alert SET detail = '{\"operators\":[{\"operator\":\"aten.") +
               op + ".default\",\"made\":[\"-inf\"]}]}'");
    EXPECT_EQ(first_bad()["step"], step) << op;
  }
}

TEST(DiagnoseTest, GradientOverflowWithScaleCollapse) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("grads");
  const int64_t w = db.Layer("head.weight", "model.py:9", "parameter");
  for (int64_t step = 0; step < 120; ++step) {
    const bool bad = step >= 60;
    db.Step(step, {.loss = 1.0,
                   .scale = bad ? 1024.0 * std::pow(0.5, static_cast<double>(step - 60)) : 1024.0,
                   .grad_norm = bad ? kInf : 1.0,
                   .flags = bad ? 4u | 8u | 16u : 0u});
  }
  db.Alert(60,
           {.type = "INF", .phase = "backward", .layer = w, .kind = 3, .producer = std::nullopt});
  db.Alert(90, {.type = "LOSS_SCALE_COLLAPSE", .phase = "optimizer", .value = 0.5});
  const Json d = Diagnose(folder, {{"run", "m.db"}});
  EXPECT_EQ(d["verdict"], "broken");
  EXPECT_EQ(d["first_bad"]["step"], 60);
  EXPECT_EQ(d["first_bad"]["phase"], "backward");
  ASSERT_FALSE(d["hypotheses"].empty());
  const std::string cause = d["hypotheses"][0]["cause"];
  EXPECT_TRUE(cause.find("loss-scale") != std::string::npos) << DumpJsonPretty(d["hypotheses"]);
}

TEST(DiagnoseTest, DivergenceInFp32IsNotPrecision) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("lr", "closed", "fp32");
  const int64_t fc = db.Layer("fc");
  for (int64_t step = 0; step < 120; ++step) {
    const bool bad = step >= 100;
    const double up = step < 60 ? 1.0 : std::pow(3.0, static_cast<double>(step - 60));
    db.Step(step, {.loss = bad ? kNan : 2.0 * up, .lr = 10.0, .grad_norm = bad ? kNan : up});
    if (step % 10 == 0 && !bad) db.Stat(step, fc, {.kind = 1, .dtype = 1, .absmax = up});
  }
  db.Alert(100, {.type = "INF", .layer = fc, .kind = 1, .producer = 1});
  auto output = Call("diagnose_run", {{"run", "m.db"}}, folder.path());
  ASSERT_TRUE(output);
  const Json& d = output->structured;
  EXPECT_EQ(d["verdict"], "broken");
  ASSERT_FALSE(d["hypotheses"].empty());
  EXPECT_EQ(d["hypotheses"][0]["cause"], "learning-rate-too-high-diverges") << output->text;
  EXPECT_NE(output->text.find("not precision"), std::string::npos) << output->text;
}

TEST(DiagnoseTest, DeclineAndTooLittleToJudge) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("decline");
  double scale = 65536;
  for (int64_t step = 0; step < 700; ++step) {
    const bool fall = step > 20 && step % 100 == 0;
    db.Step(step, {.loss = 1.0, .scale = scale, .flags = fall ? 4u | 8u | 16u : 0u});
    if (fall) scale /= 2;
  }
  Json d = Diagnose(folder, {{"run", "m.db#1"}});
  EXPECT_EQ(d["verdict"], "degraded") << d;
  ASSERT_FALSE(d["hypotheses"].empty());
  EXPECT_EQ(d["hypotheses"][0]["cause"], "loss-scale-decline-with-intermittent-nan");
  db.Run("empty");
  EXPECT_EQ(Diagnose(folder, {{"run", "m.db#2"}})["verdict"], "not_established");
  db.Run("one");
  db.Step(0, {.loss = 1.0});
  EXPECT_EQ(Diagnose(folder, {{"run", "m.db#3"}})["verdict"], "not_established");
}

TEST(DiagnoseTest, HostileNamesAndManyLayersKeepTheAnswerSmall) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run(std::string(5000, 'r') + "\n");
  db.Execute("BEGIN");
  for (int i = 0; i < 300; ++i) {
    const int64_t layer =
        db.Layer("x\n\"" + std::string(9'990, 'y') + std::to_string(i), std::string(5000, 's'));
    db.Alert(5, {.type = "NAN",
                 .layer = layer,
                 .kind = 1,
                 .producer = i == 7,
                 .message = std::string(4000, 'm')});
    db.Stat(0, layer, {.kind = 1});
  }
  for (int64_t step = 0; step < 8; ++step) db.Step(step, {.loss = step < 5 ? 1.0 : kNan});
  db.Execute("COMMIT");
  const Json d = Diagnose(folder, {{"run", "m.db"}});
  EXPECT_EQ(d["verdict"], "broken");
  EXPECT_EQ(d["first_bad"]["place"], "producer");
  EXPECT_EQ(d["first_bad"]["carrier_count"], 299);
}

TEST(DiagnoseTest, EveryStepNonFinite) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("nan");
  const int64_t layer = db.Layer("l");
  for (int64_t step = 0; step < 30; ++step) {
    db.Step(step, {.loss = kNan, .lr = std::nullopt, .grad_norm = kNan});
    db.Stat(step, layer,
            {.kind = 1, .nan = 1024, .absmax = {}, .absmin = {}, .mean = {}, .std = {}, .rms = {}});
  }
  const Json d = Diagnose(folder, {{"run", "m.db"}});
  EXPECT_EQ(d["verdict"], "broken");
  EXPECT_EQ(d["first_bad"]["step"], 0);
}

TEST(DiagnoseTest, WrongArguments) {
  TempFolder folder;
  EXPECT_FALSE(Call("diagnose_run", Json::object(), folder.path()));
  EXPECT_FALSE(Call("diagnose_run", {{"run", "x"}, {"log_text", "loss 1"}}, folder.path()));
  EXPECT_FALSE(Call("diagnose_run", {{"log_path", "missing.log"}}, folder.path()));
  EXPECT_FALSE(Call("diagnose_run", {{"log_text", "hello"}}, folder.path()));
  EXPECT_FALSE(Call("diagnose_run", {{"log_text", ""}}, folder.path()));
}

TEST(DiagnoseTest, CodeOfTheRunJoinsTheEvidence) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("broken");
  ForwardOverflow(db, 125);
  folder.Write("model.py",
               std::string(55, '\n') +
                   "import torch\ndef step(model, x, scaler, opt):\n"
                   "    with torch.autocast('cuda', torch.float16):\n        loss = model(x)\n"
                   "    scaler.scale(loss).backward()\n"
                   "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
                   "    scaler.step(opt)\n    scaler.update()\n");
  const Json with = Diagnose(folder, {{"run", "m.db"}, {"paths", {"model.py"}}});
  bool near = false;
  for (const Json& sentence : with["observations"]) {
    near = near ||
           sentence.get<std::string>().find("model.py:61 clip-before-unscale") != std::string::npos;
  }
  EXPECT_TRUE(near) << with["observations"];
  // What the run itself shows weighs more than another mistake in the code.
  EXPECT_EQ(with["hypotheses"][0]["cause"], "t5-ffn-wo-fp16-overflow")
      << DumpJsonPretty(with["hypotheses"]);
  EXPECT_FALSE(Call("diagnose_run", {{"run", "m.db"}, {"paths", {"gone.py"}}}, folder.path()));
}

}  // namespace
}  // namespace mpnanny::test
