// choose_precision over a recorded run: what is established, what only its range says, and what is
// not known.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/runs/recording.h"
#include "tests/runs/shadow_recording.h"
#include "tools/choose_precision/report.h"

namespace mpnanny::test {
namespace {

constexpr int64_t kHalf = 2, kBrain = 3, kSingle = 1;  // of `meaning`, as monitor/core writes it

class RunPrecisionTest : public ::testing::Test {
 protected:
  // 40 steps, sampled every tenth, of two layers whose outputs are held in `dtype`.
  void Record(int64_t dtype, bool shadow, double largest = 12.0, double last_loss = 1.0) {
    Recording db(folder_.File("m.db"));
    db.Run("r");
    if (!environment_.empty()) db.Execute("UPDATE run SET environment='" + environment_ + "'");
    norm_ = db.Layer("block.norm");
    const int64_t ffn = db.Layer("block.ffn");
    for (int64_t step = 0; step <= 40; ++step) {
      db.Step(step, {.loss = step == 40 ? last_loss : 1.0});
      if (step % 10 != 0) continue;
      db.Stat(step, norm_, {.dtype = dtype, .absmax = 3.0});
      db.Stat(step, ffn, {.dtype = dtype, .absmax = step == 20 ? largest : 1.0});
      db.Stat(step, ffn, {.kind = 3, .dtype = kSingle, .absmax = 0.0005});
      if (!shadow) continue;
      AddShadowStep(db, step);
      AddProfile(db, step, ffn, 0, 0.001, 0.0003);
    }
    if (with_) AddFinding(db, 20, *with_);
  }

  Json Asked(const std::string& device, const Json& more = Json::object()) {
    Json arguments = {{"run", "m.db"}, {"device", device}};
    arguments.update(more);
    auto answer = Call("choose_precision", arguments, folder_.path());
    EXPECT_TRUE(answer) << answer.error().message;
    if (!answer) return {};
    text_ = answer->text;
    return answer->structured;
  }

  const Json& Way(const Json& answer, const std::string& way) {
    for (const Json& each : answer["alternatives"]) {
      if (each["way"] == way) return each;
    }
    static const Json kNone;
    return kNone;
  }

  TempFolder folder_;
  int64_t norm_ = 0;
  std::optional<FindingSpec> with_;
  std::string environment_, text_;
};

TEST_F(RunPrecisionTest, AFormatInWhichShadowStepsFoundNothingIsSafe) {
  Record(kBrain, true);
  const Json answer = Asked("a100");
  EXPECT_EQ(answer["verdict"], "safe");
  EXPECT_EQ(answer["way"], "bf16-autocast");
  EXPECT_EQ(answer["shadow_steps"], 5);
  EXPECT_EQ(Way(answer, "bf16-autocast")["status"], "measured");
  EXPECT_EQ(Way(answer, "fp16-autocast")["status"], "in_range");
  EXPECT_NE(text_.find("BF16 autocast (measured in 5 shadow steps)"), std::string::npos) << text_;
}

TEST_F(RunPrecisionTest, LinesThatFp32CuresAreThePlan) {
  with_ = FindingSpec{};
  Record(kBrain, true);
  const Json answer = Asked("h100");
  EXPECT_EQ(answer["verdict"], "safe_with_islands");
  ASSERT_EQ(answer["islands"].size(), 1u);
  const Json& island = answer["islands"][0];
  EXPECT_EQ(island["lines"], Json({"train.py:40", "train.py:41", "train.py:42"}));
  EXPECT_EQ(island["without_it"], 3.1);
  EXPECT_EQ(island["with_it"], 0.0001);
  EXPECT_NE(answer["code"][0]["text"].get<std::string>().find("enabled=False"), std::string::npos);
}

TEST_F(RunPrecisionTest, WhatWasNotShownToBePrecisionEstablishesNothing) {
  with_ =
      FindingSpec{.kind = "undefined", .severity = "ERROR", .precision = "excluded", .cure = ""};
  Record(kBrain, true);
  const Json answer = Asked("a100");
  EXPECT_EQ(answer["verdict"], "not_established");
  EXPECT_EQ(answer["limits"], Json({"not_precision"}));
  EXPECT_NE(text_.find("diagnose_run"), std::string::npos);
}

TEST_F(RunPrecisionTest, ALossThatIsNotFiniteIsNotSafe) {
  Record(kBrain, true, 12.0, kNan);
  EXPECT_EQ(Asked("a100")["verdict"], "not_established");
}

TEST_F(RunPrecisionTest, WithoutShadowStepsNothingIsEstablished) {
  Record(kBrain, false);
  const Json answer = Asked("a100");
  EXPECT_EQ(answer["verdict"], "not_established");
  EXPECT_EQ(answer["way"], "bf16-autocast");
  EXPECT_EQ(answer["limits"], Json({"no_shadow_steps"}));
}

TEST_F(RunPrecisionTest, OfAnotherFormatOnlyTheRangeIsKnown) {
  Record(kBrain, true, 70'000);
  const Json on_a100 = Asked("a100");
  EXPECT_EQ(on_a100["verdict"], "safe");
  EXPECT_EQ(Way(on_a100, "fp16-autocast")["status"], "out_of_range");
  EXPECT_EQ(Way(on_a100, "fp16-autocast")["out_of_range"], Json({"block.ffn"}));
  EXPECT_NE(text_.find("block.ffn 70000 (step 20)"), std::string::npos) << text_;
  // A T4 multiplies no BF16, and FP16 does not hold the values.
  const Json on_t4 = Asked("t4");
  EXPECT_EQ(on_t4["verdict"], "not_established");
  EXPECT_EQ(Way(on_t4, "bf16-autocast")["status"], "not_on_device");
  EXPECT_EQ(on_t4["way"], "fp32");
}

TEST_F(RunPrecisionTest, TheLossScaleLeavesRoomAboveTheLargestGradient) {
  Record(kHalf, true);
  const Json answer = Asked("t4");
  EXPECT_EQ(answer["verdict"], "safe");
  const double scale = answer["scaler"]["init_scale"];
  EXPECT_LE(scale * 0.0005 * 16, 65504);
  EXPECT_GT(scale * 2 * 0.0005 * 16, 65504);
  EXPECT_EQ(answer["scaler"]["growth_interval"], 50);
  EXPECT_TRUE(answer["scaler"]["flushed"].is_null());  // no exponents were recorded
}

TEST_F(RunPrecisionTest, ARunInFp32SaysNothingOfRounding) {
  Record(kSingle, true);
  const Json answer = Asked("a100");
  EXPECT_EQ(answer["trained_in"], "fp32");
  EXPECT_EQ(answer["verdict"], "not_established");
  EXPECT_EQ(answer["limits"], Json({"other_format"}));
  EXPECT_NEAR(answer["layers"][0]["local"].value("fp16", 0.0), 0.0003, 1e-9);
}

// Whoever trains on a CPU and names no GPU gets no code for one.
TEST_F(RunPrecisionTest, TheCodeIsForTheDeviceOfTheRun) {
  environment_ = R"({"devices":[{"type":"cpu"}]})";
  with_ = FindingSpec{};
  Record(kBrain, true);
  const std::string on_cpu = Asked("")["code"][0]["text"];
  EXPECT_NE(on_cpu.find("torch.autocast(\"cpu\", dtype=torch.bfloat16)"), std::string::npos);
  EXPECT_NE(on_cpu.find("torch.autocast(\"cpu\", enabled=False)"), std::string::npos);
  EXPECT_EQ(on_cpu.find("cuda"), std::string::npos) << on_cpu;
  EXPECT_NE(text_.find("The run was on a CPU, and so is the code"), std::string::npos) << text_;
  const std::string on_a100 = Asked("a100")["code"][0]["text"];
  EXPECT_NE(on_a100.find("torch.autocast(\"cuda\", dtype=torch.bfloat16)"), std::string::npos);
  EXPECT_EQ(text_.find("The run was on a CPU"), std::string::npos) << text_;
}

TEST_F(RunPrecisionTest, WhatDoesNotFitTogetherIsRefused) {
  Record(kBrain, true);
  const auto both =
      Call("choose_precision", {{"run", "m.db"}, {"model", "m.py:build"}}, folder_.path());
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().kind, ErrorKind::kInvalidInput);
  const auto unknown =
      Call("choose_precision", {{"run", "m.db"}, {"device", "abacus"}}, folder_.path());
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().hint.find("a100"), std::string::npos);
}

// What no choice makes faster or smaller is left as it is, whatever the search found to be safe.
TEST(PrecisionText, NothingIsGained) {
  const auto plan = [](const char* way, double memory, double speed) {
    return Json{{"way", way},
                {"established", true},
                {"memory", {{"of_fp32", memory}}},
                {"speedup_model", speed}};
  };
  Json answer = plan("bf16-autocast", 1.0, 1.0);
  answer.update({{"verdict", "safe"},
                 {"target", "model.py:build"},
                 {"device", {{"title", "NVIDIA H100"}}},
                 {"goal", "balanced"},
                 {"alternatives", Json::array({plan("fp16-autocast", 1.0, 0.9)})}});
  const auto told = [&] { return choose_precision::ReportText(answer, "pytorch", 8000); };
  EXPECT_TRUE(
      told().starts_with("model.py:build on NVIDIA H100: stay as you are, in FP32: nothing "
                         "is gained here, no choice is faster or smaller."))
      << told();
  answer["alternatives"][0] = plan("fp16-autocast", 1.0, 1.5);
  EXPECT_EQ(told().find("nothing is gained"), std::string::npos) << told();
  answer["alternatives"] = Json::array();
  answer["memory"]["of_fp32"] = 0.6;
  EXPECT_EQ(told().find("nothing is gained"), std::string::npos) << told();
}

}  // namespace
}  // namespace mpnanny::test
