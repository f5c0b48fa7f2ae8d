// What diagnose_run says of values that came in bad, that nothing came of, and of exceptions: what
// was measured and where, and nothing that was not.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/runs/recording.h"
#include "tests/runs/shadow_recording.h"

namespace mpnanny::test {
namespace {

class DiagnoseCarriedTest : public ::testing::Test {
 protected:
  void SetUp() override { db_.Run("carried", "closed", "fp32"); }

  // 60 steps, not finite from `nan_from` on.
  void Steps(int64_t nan_from = 60) {
    for (int64_t step = 0; step < 60; ++step) {
      db_.Step(step, {.loss = step < nan_from ? 2.0 - 0.01 * static_cast<double>(step) : kNan,
                      .grad_norm = 1.0,
                      .flags = step < nan_from ? 0u : 1u});
    }
  }
  ToolOutput Ask() {
    auto output = Call("diagnose_run", {{"run", "m.db"}}, folder_.path());
    EXPECT_TRUE(output) << (output ? "" : output.error().Text());
    return output ? *output : ToolOutput{};
  }
  void Ended(const std::string& detail, int64_t step) {
    db_.Execute("INSERT INTO event (run_id, step, at, type, detail) VALUES (1, " +
                std::to_string(step) + ", 0, 'exception', '" + detail + "')");
  }

  TempFolder folder_;
  Recording db_{folder_.File("m.db")};
};

// A value that was not finite before its step, as the monitor tells it.
FindingSpec Carried(const std::string& kind, const std::string& whose,
                    const std::string& more = "") {
  FindingSpec spec;
  spec.kind = "undefined";
  spec.severity = "ERROR";
  spec.op = "aten.lerp_.Scalar";
  spec.source = "train.py:52";
  spec.dtype = "float32";
  spec.share = 1.0;
  spec.error_in = spec.error_out = {};
  spec.precision = kind == "state" ? "not_tested" : "excluded";
  spec.cure = "";
  spec.detail = R"({"from":"it was not finite before","carrier":")" + kind + R"(","whose":")" +
                whose + "\"" + more + "}";
  return spec;
}

TEST_F(DiagnoseCarriedTest, NanThatNothingCameOfMakesNoVerdict) {
  const int64_t experts = db_.Layer("experts");
  Steps();
  db_.Alert(0, {.type = "NAN", .layer = experts, .kind = 1, .producer = 1, .repeats = 60});
  const ToolOutput answer = Ask();
  EXPECT_EQ(answer.structured["verdict"], "healthy") << answer.text;
  EXPECT_NE(answer.text.find("One thing to look at: NaN in the activation of experts at step 0"),
            std::string::npos)
      << answer.text;
}

// The monitor tells of the first, the second, the fourth … and of all at the end.
TEST_F(DiagnoseCarriedTest, StepsThatTheLoopLeftAreSaid) {
  Steps();
  for (const char* count : {"1", "2", "3"}) {
    db_.Execute(std::string("INSERT INTO event (run_id, step, at, type, detail) VALUES (1, 1") +
                count + ", 0, 'step_left', '{\"count\":" + count + ",\"first\":11}')");
  }
  const ToolOutput answer = Ask();
  const std::string said =
      "The loop went on without an optimizer step in 3 steps, first in step 11: the weights did "
      "not "
      "change there.";
  const Json& observations = answer.structured["observations"];
  EXPECT_EQ(std::count(observations.begin(), observations.end(), Json(said)), 1) << answer.text;
  EXPECT_EQ(answer.structured["verdict"], "healthy") << answer.text;
}

TEST_F(DiagnoseCarriedTest, NanWhoseGradientsAreNotFiniteIsAFault) {
  const int64_t experts = db_.Layer("experts");
  for (int64_t step = 0; step < 60; ++step) {
    db_.Step(step, {.loss = 2.0,
                    .grad_norm = step == 0 ? Real{kNan} : Real{1.0},
                    .flags = step == 0 ? 4u : 0u});
  }
  db_.Alert(0, {.type = "NAN", .layer = experts, .kind = 1, .producer = 1});
  EXPECT_EQ(Ask().structured["verdict"], "degraded");
}

TEST_F(DiagnoseCarriedTest, AnInfinityNeedsAShadowStepToBeHarmless) {
  const int64_t layer = db_.Layer("ratio");
  Steps();
  db_.Alert(5, {.type = "INF", .layer = layer, .kind = 1, .producer = 1});
  EXPECT_EQ(Ask().structured["verdict"], "degraded");  // 1 / Inf is a finite number
  AddShadowStep(db_, 6);
  EXPECT_EQ(Ask().structured["verdict"], "healthy");
}

TEST_F(DiagnoseCarriedTest, AnInfinityOfMemoryThatNothingUsesIsHarmless) {
  for (const bool used : {false, true}) {
    TempFolder folder;
    Recording db(folder.File("m.db"));
    db.Run("experts", "closed", "fp32");
    const int64_t experts = db.Layer("experts");
    for (int64_t step = 0; step < 60; ++step) db.Step(step, {.loss = 2.0, .grad_norm = 1.0});
    FindingSpec spec = Carried("unwritten", "");
    spec.phase = "forward";
    spec.layer = experts;
    spec.reach = used ? R"([{"what":"loss","name":null,"error":null}])"
                      : R"([{"what":"output","name":null,"error":null}])";
    AddFinding(db, 2, spec);
    db.Alert(42, {.type = "INF", .phase = "forward", .layer = experts, .kind = 1, .producer = 1});
    auto called = Call("diagnose_run", {{"run", "m.db"}}, folder.path());
    ASSERT_TRUE(called);
    const ToolOutput& answer = *called;
    EXPECT_EQ(answer.structured["verdict"] == "healthy", !used) << answer.text;
  }
}

TEST_F(DiagnoseCarriedTest, NothingAfterTheOnsetExplainsIt) {
  Steps(37);
  db_.Alert(37, {.type = "LOSS_NAN", .phase = "loss", .producer = 1});
  for (const int64_t step : {36, 39}) AddShadowStep(db_, step);
  AddFinding(db_, 39, Carried("state", "parameter 0.weight of Teacher", R"(,"onset":37)"));
  const ToolOutput answer = Ask();
  EXPECT_EQ(answer.structured["first_bad"]["step"], 37);
  EXPECT_EQ(answer.text.find("lerp"), answer.text.npos) << answer.text;
  EXPECT_EQ(answer.text.find("compared with the same step"), answer.text.npos) << answer.text;
}

TEST_F(DiagnoseCarriedTest, WhatCameNearTheEndBeforeIsTheLikelyCause) {
  Steps(37);
  db_.Alert(37, {.type = "LOSS_NAN", .phase = "loss", .producer = 1});
  AddShadowStep(db_, 33);
  FindingSpec exponential;
  exponential.severity = "INFO";
  exponential.phase = "loss";
  exponential.op = "aten.exp.default";
  exponential.source = "train.py:14";
  exponential.dtype = "float32";
  exponential.magnitude = 1.5e34;
  AddFinding(db_, 33, exponential);
  const Json d = Ask().structured;
  const std::string title = d["hypotheses"][0]["title"];
  EXPECT_NE(title.find("train.py:14"), std::string::npos) << title;
  EXPECT_NE(title.find("near the end of its format"), std::string::npos) << title;
  EXPECT_EQ(d["hypotheses"][0]["lines"][0], "train.py:14");
  EXPECT_LE(d["hypotheses"][0]["confidence"], 0.7) << "it is likely, and not measured";
}

TEST_F(DiagnoseCarriedTest, TheStateThatBroughtItInIsNamed) {
  Steps(0);
  AddShadowStep(db_, 0);
  AddFinding(db_, 0, Carried("state", "exp_avg of AdamW", R"(,"at":"train.py:52")"));
  const ToolOutput answer = Ask();
  const Json& first = answer.structured["hypotheses"][0];
  EXPECT_NE(first["title"].get<std::string>().find("because exp_avg of AdamW"), std::string::npos)
      << first;
  EXPECT_NE(first["fix"].get<std::string>().find("mpnanny analyze"), std::string::npos) << first;
  EXPECT_EQ(answer.text.find("add a small number"), answer.text.npos) << answer.text;
}

TEST_F(DiagnoseCarriedTest, MemoryThatNothingWasWrittenIntoIsCalledThat) {
  Steps(0);
  AddShadowStep(db_, 0);
  AddFinding(db_, 0, Carried("unwritten", "", R"(,"at":"moe.py:18")"));
  const Json first = Ask().structured["hypotheses"][0];
  EXPECT_NE(
      first["title"].get<std::string>().find("memory that nothing was written into (moe.py:18)"),
      std::string::npos)
      << first;
  EXPECT_NE(first["fix"].get<std::string>().find("0 times NaN is NaN"), std::string::npos) << first;
}

TEST_F(DiagnoseCarriedTest, AConstantIsNotClampedInsideARoot) {
  Steps(0);
  AddShadowStep(db_, 0);
  FindingSpec full = Carried("", "");
  full.op = "aten.full.default";
  full.detail = "";
  AddFinding(db_, 0, full);
  const std::string fix = Ask().structured["hypotheses"][0]["fix"];
  EXPECT_EQ(fix.find("root"), fix.npos) << fix;
  EXPECT_NE(fix.find("constant"), fix.npos) << fix;
}

TEST_F(DiagnoseCarriedTest, TheCaseThatIsNamedFitsTheMeasurement) {
  const int64_t norm = db_.Layer("norm", "train.py:17", "RowNorm");
  Steps(30);
  db_.Alert(30, {.type = "NAN", .layer = norm, .kind = 1, .producer = 1});
  AddShadowStep(db_, 30);
  FindingSpec spec = Carried("", "");
  spec.kind = "range";
  spec.op = "aten.rsqrt.default";
  spec.dtype = "float16";
  spec.precision = "proven";
  spec.layer = norm;
  spec.magnitude = 3.2e4;
  spec.detail = R"({"operands":[[0,1e-9]]})";
  AddFinding(db_, 30, spec);
  const ToolOutput answer = Ask();
  const Json& first = answer.structured["hypotheses"][0];
  EXPECT_NE(first["cause"], "instance-norm-half-mean-variance-overflow") << answer.text;
  EXPECT_EQ(first["fix"].get<std::string>().find("Mean and variance"), std::string::npos) << first;
  EXPECT_EQ(answer.text.find("under autocast"), answer.text.npos) << answer.text;
}

TEST_F(DiagnoseCarriedTest, TheExceptionThatEndedTheRunIsMatchedAndQuotedFirst) {
  Ended(
      R"({"error":"RuntimeError","text":"Index put requires the source and destination dtypes match, )"
      R"(got Float for the destination and BFloat16 for the source","source":"train.py:18"})",
      0);
  const ToolOutput answer = Ask();
  EXPECT_EQ(answer.structured["verdict"], "broken") << answer.text;
  EXPECT_EQ(answer.structured["hypotheses"][0]["cause"],
            "autocast-fp32-op-meets-half-index-assign");
  EXPECT_EQ(answer.structured["first_bad"]["source"], "train.py:18");
  const std::string opening = answer.text.substr(0, answer.text.find('\n'));
  EXPECT_NE(opening.find("train.py:18"), std::string::npos) << opening;
}

TEST_F(DiagnoseCarriedTest, AnExceptionOfNoCaseIsQuotedAllTheSame) {
  Ended(R"({"error":"KeyError","text":"weights","source":"train.py:3"})", 0);
  const ToolOutput answer = Ask();
  EXPECT_EQ(answer.structured["verdict"], "not_established");
  EXPECT_NE(answer.structured["headline"].get<std::string>().find("KeyError: weights (train.py:3)"),
            std::string::npos);
  EXPECT_EQ(answer.text.find("Let the run make some steps"), answer.text.npos) << answer.text;
}

TEST_F(DiagnoseCarriedTest, ALearningRateThatWentOnInFewSkippedStepsIsNoVerdict) {
  for (int64_t step = 0; step < 400; ++step) {
    db_.Step(step, {.loss = 2.0 - 0.004 * static_cast<double>(step),
                    .scale = 1024,
                    .grad_norm = 1.0,
                    .flags = step >= 20 && step < 30 ? 8u : 0u});
  }
  AddShadowStep(db_, 29);
  FindingSpec spec = Carried("", "");
  spec.kind = "moved_on_skip";
  spec.severity = "WARNING";
  spec.phase = "optimizer";
  spec.reach = "";
  spec.detail = R"({"what":"the learning rate","steps":10})";
  AddFinding(db_, 29, spec);
  EXPECT_EQ(Ask().structured["verdict"], "healthy");
}

}  // namespace
}  // namespace mpnanny::test
