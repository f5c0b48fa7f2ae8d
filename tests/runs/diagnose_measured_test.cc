// What diagnose_run makes of findings of shadow steps: the answer starts with them, cases come
// after, and nothing is said of precision that was not measured.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>

#include "tests/runs/measured_run.h"
#include "tests/runs/recording.h"
#include "tests/runs/shadow_recording.h"

namespace mpnanny::test {
namespace {

TEST(DiagnoseMeasuredTest, SilentFaultIsDegradedWithItsLineAndCure) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("silent", "closed", "bf16");
  Steps(db);
  AddFinding(db, 4, {.last_step = 20, .repeats = 2});
  const ToolOutput answer = Ask(folder);
  const Json& d = answer.structured;
  EXPECT_EQ(d["verdict"], "degraded");
  EXPECT_EQ(d["first_bad"]["step"], 4);
  EXPECT_EQ(d["first_bad"]["phase"], "forward");
  EXPECT_EQ(d["first_bad"]["operator"], "aten.sub.Tensor");
  EXPECT_EQ(d["first_bad"]["source"], "train.py:40");
  EXPECT_EQ(d["first_bad"]["precision"], "proven");
  EXPECT_EQ(d["first_bad"]["cure"]["lines"].size(), 3u);
  EXPECT_EQ(d["shadow"][0]["kind"], "amplified");
  // No case speaks of it: the measurement itself is the cause, not the nearest case.
  ASSERT_FALSE(d["hypotheses"].empty());
  EXPECT_EQ(d["hypotheses"][0]["cause"], nullptr);
  EXPECT_NE(d["hypotheses"][0]["title"].get<std::string>().find("train.py:40"), std::string::npos);
  EXPECT_NE(d["hypotheses"][0]["fix"].get<std::string>().find("lines 40–42"), std::string::npos)
      << d["hypotheses"][0]["fix"];
  const std::string opening = answer.text.substr(0, 600);
  EXPECT_NE(opening.find("train.py:40"), std::string::npos) << opening;
  EXPECT_NE(opening.find("Precision is the cause (proven)"), std::string::npos) << opening;
  EXPECT_NE(opening.find("confidence 0."), std::string::npos) << opening;
  EXPECT_NE(opening.find("To change: "), std::string::npos) << opening;
  EXPECT_EQ(answer.text.find("Precision is the cause", opening.find("Precision") + 1),
            std::string::npos)
      << "nothing is said twice";
}

TEST(DiagnoseMeasuredTest, FirstValueThatIsNotFiniteGetsOperatorAndLine) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("overflow", "closed", "fp16");
  const int64_t ffn = db.Layer("ffn");
  Steps(db, 30);
  db.Alert(30, {.type = "INF", .phase = "forward", .layer = ffn, .kind = 1, .producer = 1});
  FindingSpec overflow = Overflow();
  overflow.layer = ffn;
  AddFinding(db, 30, overflow);
  // What follows from it in the same step is the same mistake.
  FindingSpec follows = Overflow();
  follows.kind = "undefined";
  follows.op = "aten.mean.dim";
  follows.source = "model.py:20";
  follows.phase = "loss";
  follows.precision = "not_tested";
  follows.cure = "";
  AddFinding(db, 30, follows);
  const Json d = Ask(folder).structured;
  EXPECT_EQ(d["verdict"], "broken");
  EXPECT_EQ(d["first_bad"]["step"], 30);
  EXPECT_EQ(d["first_bad"]["layer"], "ffn");
  EXPECT_EQ(d["first_bad"]["operator"], "aten.mul.Tensor");
  EXPECT_EQ(d["first_bad"]["source"], "model.py:12");
  EXPECT_EQ(d["first_bad"]["precision"], "proven");
  int64_t measured = 0;
  for (const Json& h : d["hypotheses"]) {
    for (const Json& sentence : h["evidence"]) {
      measured += sentence.get<std::string>().starts_with("Measured at step") ? 1 : 0;
    }
  }
  EXPECT_EQ(measured, 1) << "two findings of one mistake are one hypothesis";
}

TEST(DiagnoseMeasuredTest, AnInfiniteDerivativeIsTheOperatorsWhoseGradientItIs) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("distances", "closed", "fp32");
  Steps(db, 30);
  db.Alert(30, {.type = "NAN", .phase = "backward", .kind = 3});
  FindingSpec root;
  root.kind = "undefined";
  root.severity = "ERROR";
  root.phase = "backward";
  root.op = "aten.div.Tensor";
  root.source = "train.py:24";
  root.dtype = "float32";
  root.share = 0.024;
  root.precision = "excluded";
  root.cure = "";
  root.detail = R"({"operands":[[0.0,0.0],[0.0,0.0]],"forward":"aten.sqrt"})";
  AddFinding(db, 30, root);
  const Json d = Ask(folder).structured;
  const std::string title = d["hypotheses"][0]["title"], fix = d["hypotheses"][0]["fix"];
  EXPECT_NE(title.find("(backward of the square root)"), std::string::npos) << title;
  EXPECT_NE(title.find("derivative of a root or a norm at exactly 0 is infinite"),
            std::string::npos)
      << title;
  EXPECT_NE(fix.find("(eps) inside the square root at train.py:24"), std::string::npos) << fix;
}

TEST(DiagnoseMeasuredTest, ExcludedPrecisionSpeaksAgainstCasesOfPrecision) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("log of zero", "closed", "fp16");
  const int64_t ffn = db.Layer("blocks.0.ffn.wo");
  Steps(db, 30);
  for (const int64_t step : {0, 10, 20}) {
    db.Stat(step, ffn, {.kind = 1, .absmax = 6e4});
  }
  db.Alert(30, {.type = "INF", .phase = "forward", .layer = ffn, .kind = 1, .producer = 1});
  FindingSpec undefined = Overflow();
  undefined.kind = "undefined";
  undefined.op = "aten.log.default";
  undefined.precision = "excluded";
  undefined.cure = "";
  undefined.layer = ffn;
  AddFinding(db, 30, undefined);
  const ToolOutput answer = Ask(folder);
  const Json& d = answer.structured;
  EXPECT_EQ(d["first_bad"]["precision"], "excluded");
  EXPECT_NE(answer.text.find("It is not precision."), std::string::npos) << answer.text;
  bool contradicted = false;
  for (const Json& h : d["hypotheses"]) {
    if (h["cause"] != "t5-ffn-wo-fp16-overflow") continue;
    EXPECT_LT(h["confidence"], 0.5);
    for (const Json& sentence : h["against"]) {
      contradicted = contradicted || sentence.get<std::string>().starts_with("It is not precision");
    }
  }
  EXPECT_TRUE(contradicted) << DumpJsonPretty(d["hypotheses"]);
}

TEST(DiagnoseMeasuredTest, WhatCameAfterTheDivergenceIsNotItsCause) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("diverged", "closed", "bf16");
  for (int64_t step = 0; step < 80; ++step) {
    db.Step(step, {.loss = step < 40 ? 1.0 : 1.0 + static_cast<double>(step - 40),
                   .grad_norm = step < 40 ? 1.0 : 100.0});
  }
  AddShadowStep(db, 0);
  AddShadowStep(db, 70);
  AddFinding(db, 70, {});
  const Json d = Ask(folder).structured;
  EXPECT_EQ(d["verdict"], "broken");
  for (const Json& h : d["hypotheses"]) {
    if (h["title"].get<std::string>().find("train.py:40") == std::string::npos) continue;
    EXPECT_LT(h["confidence"], 0.5);
    EXPECT_FALSE(h["against"].empty());
  }
}

TEST(DiagnoseMeasuredTest, HealthySaysWhatWasTestedAndNotesDoNotDecide) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("healthy", "closed", "bf16");
  Steps(db);
  AddFinding(db, 4, {.severity = "INFO"});
  const ToolOutput answer = Ask(folder);
  const Json& d = answer.structured;
  EXPECT_EQ(d["verdict"], "healthy");
  EXPECT_TRUE(d["hypotheses"].empty());
  ASSERT_FALSE(d["tested"].empty());
  EXPECT_NE(d["tested"][1].get<std::string>().find("3 steps of 60 against FP64"), std::string::npos)
      << d["tested"];
  EXPECT_FALSE(d["not_tested"].empty());
  EXPECT_NE(answer.text.find("Not tested: "), std::string::npos);
  EXPECT_EQ(d["shadow"][0]["severity"], "INFO");
}

// Weights in BF16 whose updates look lost by their size, as where FP32 copies take them.
void SmallUpdates(Recording& db) {
  const int64_t weight = db.Layer("emb.weight", "model.py:10", "parameter");
  for (int64_t step = 0; step < 60; ++step) {
    db.Step(step, {.loss = 2.0 - 0.01 * static_cast<double>(step), .flags = step % 10 ? 0u : 64u});
    if (step % 10) continue;
    db.Stat(step, weight, {.kind = 4, .dtype = 3, .absmax = 1.0});
    db.Stat(step, weight,
            {.kind = 5, .dtype = 3, .absmax = 1e-6, .rms = 1e-6, .frozen = int64_t{1000}});
  }
}

TEST(DiagnoseMeasuredTest, WhatStatisticsSuspectAndShadowStepsDoNotFindIsNoFault) {
  TempFolder folder;
  {
    Recording db(folder.File("m.db"));
    db.Run("suspected", "closed", "bf16");
    SmallUpdates(db);
  }
  const Json suspected = Ask(folder).structured;
  EXPECT_EQ(suspected["verdict"], "degraded") << suspected["headline"];
  TempFolder looked;
  Recording db(looked.File("m.db"));
  db.Run("looked at", "closed", "bf16");
  SmallUpdates(db);
  for (const int64_t step : {0, 4, 20}) AddShadowStep(db, step);
  const Json d = Ask(looked).structured;
  EXPECT_EQ(d["verdict"], "healthy") << d["headline"];
}

TEST(DiagnoseMeasuredTest, WhatTakesSeveralStepsToTellBeganWithTheFirst) {
  for (const auto& [detail, step] : std::vector<std::pair<std::string, int64_t>>{
           {R"({"since": 1})", 1}, {R"({"since": 9})", 4}, {R"({"since": "x"})", 4}, {"", 4}}) {
    TempFolder folder;
    Recording db(folder.File("m.db"));
    db.Run("silent", "closed", "bf16");
    Steps(db);
    AddFinding(db, 4, {.detail = detail});
    EXPECT_EQ(Ask(folder).structured["first_bad"]["step"], step) << detail;
  }
}

TEST(DiagnoseMeasuredTest, WhatTheFirstComparedStepShowsMayBeOlder) {
  const auto told = [](const std::string& without) {
    TempFolder folder;
    Recording db(folder.File("m.db"));
    db.Run("silent", "closed", "bf16");
    Steps(db);
    db.Execute("DELETE FROM shadow_step WHERE step = " + without);
    AddFinding(db, 4, {.last_step = 20, .repeats = 2});
    return Ask(folder).text;
  };
  const std::string first = told("0");
  EXPECT_NE(first.find("from the first compared step on (step 4; earlier steps were not compared)"),
            std::string::npos)
      << first;
  EXPECT_NE(first.find("it shows from the first compared step on (step 4), and earlier"),
            std::string::npos)
      << first;
  EXPECT_EQ(told("20").find("first compared step"), std::string::npos);
}

TEST(DiagnoseMeasuredTest, RoundingBeforeTheStepDecidesNothing) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("silent", "closed", "fp16");
  Steps(db);
  AddFinding(db, 4,
             {.kind = "undefined",
              .severity = "ERROR",
              .precision = "not_tested",
              .cure = "",
              .detail = R"({"rounded_before": true})"});
  const ToolOutput answer = Ask(folder);
  EXPECT_EQ(answer.structured["first_bad"]["precision"], "not_tested");
  EXPECT_NE(answer.text.find("held in 16 bits before"), std::string::npos) << answer.text;
  EXPECT_EQ(answer.text.find("It is not precision"), std::string::npos) << answer.text;
}

TEST(DiagnoseMeasuredTest, ABackwardPassThatOverflowsIsToldHowMuchSmallerItsLossMustBe) {
  const auto fix_of = [](const char* phase, const char* dtype, double magnitude) {
    TempFolder folder;
    Recording db(folder.File("m.db"));
    db.Run("static scale", "closed", "fp16");
    Steps(db);
    FindingSpec overflow = Overflow();
    overflow.phase = phase;
    overflow.dtype = dtype;
    overflow.magnitude = magnitude;
    AddFinding(db, 4, overflow);
    return Ask(folder).structured["hypotheses"][0]["fix"].get<std::string>();
  };
  EXPECT_TRUE(fix_of("backward", "float16", 171700)
                  .starts_with(
                      "A backward pass is linear in its loss: with a loss that is 4 times smaller"))
      << fix_of("backward", "float16", 171700);
  for (const std::string& other :
       {fix_of("forward", "float16", 171700), fix_of("backward", "bfloat16", 1e39),
        fix_of("backward", "float16", 1e12), fix_of("backward", "float16", 60000)}) {
    EXPECT_EQ(other.find("linear in its loss"), std::string::npos) << other;
  }
}

TEST(DiagnoseMeasuredTest, RoundingBetweenStepsIsMeasuredOnTheRunItself) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("fp8 store", "closed", "fp32");
  Steps(db);
  AddFinding(db, 4,
             {.kind = "lost_change",
              .op = "aten._to_copy",
              .dtype = "float32 → float8_e5m2",
              .share = 0.9,
              .cure = "",
              .detail = R"({"rounded_between": true, "since": 1})"});
  const ToolOutput answer = Ask(folder);
  EXPECT_EQ(answer.structured["verdict"], "degraded");
  EXPECT_NE(answer.text.find("The weights are rounded between two steps"), std::string::npos);
  EXPECT_EQ(answer.text.find("by running every operator of the step a second time"),
            std::string::npos)
      << answer.text;
}

TEST(DiagnoseMeasuredTest, LinesFromWhichItWasCalledAreNamed) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("rotary", "closed", "bf16");
  Steps(db);
  AddFinding(db, 4, {.detail = R"({"called_from": ["rotary.py:54", 7, "rotary.py:80"]})"});
  const ToolOutput answer = Ask(folder);
  const auto lines = answer.structured["hypotheses"][0]["lines"].get<std::vector<std::string>>();
  for (const char* line : {"rotary.py:54", "rotary.py:80"}) {
    EXPECT_EQ(std::count(lines.begin(), lines.end(), line), 1) << line;
  }
  EXPECT_NE(answer.text.find("Called from rotary.py:54, rotary.py:80."), std::string::npos)
      << answer.text;
  const std::string fix = answer.structured["hypotheses"][0]["fix"];
  EXPECT_EQ(fix.find("rotary.py:54"), std::string::npos) << "no place to change: " << fix;
}

// That no weight gets a gradient is seen in the same step; it names no line.
TEST(DiagnoseMeasuredTest, FirstBadNamesTheLineThatWasMeasuredInThatStep) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("halves", "closed", "fp16");
  for (int64_t step = 0; step < 60; ++step) db.Step(step, {.loss = 2.0, .grad_norm = 0.0});
  AddShadowStep(db, 0);
  AddFinding(db, 0,
             {.kind = "flushed",
              .phase = "backward",
              .op = "aten._to_copy",
              .source = "halves.py:108",
              .dtype = "float16",
              .reach = R"([{"what":"gradient","name":"l.weight","error":1}])"});
  const ToolOutput answer = Ask(folder);
  EXPECT_NE(answer.text.find("The gradient norm is exactly 0"), std::string::npos) << answer.text;
  const Json& first_bad = answer.structured["first_bad"];
  ASSERT_TRUE(first_bad.is_object()) << answer.text;
  EXPECT_EQ(first_bad["source"], "halves.py:108") << first_bad.dump();
  EXPECT_EQ(first_bad["place"], "producer") << first_bad.dump();
}

TEST(DiagnoseMeasuredTest, TheLineThatGaveSomethingItsFormatIsWhereToChange) {
  for (const bool known : {true, false}) {
    TempFolder folder;
    Recording db(folder.File("m.db"));
    db.Run("counts", "closed", "bf16");
    Steps(db);
    AddFinding(db, 4,
               {.kind = "lost_change",
                .op = "aten.add_.Tensor",
                .dtype = "bfloat16",
                .share = 0.9,
                .detail = known ? R"({"since": 1, "home": "counts.py:23"})" : R"({"since": 1})"});
    const ToolOutput answer = Ask(folder);
    const Json& first = answer.structured["hypotheses"][0];
    const std::string fix = first["fix"];
    EXPECT_EQ(fix.find("gets its format at counts.py:23 in FP32") != std::string::npos, known)
        << fix;
    const auto lines = first["lines"].get<std::vector<std::string>>();
    EXPECT_EQ(std::count(lines.begin(), lines.end(), "counts.py:23"), known ? 1 : 0);
  }
}

TEST(DiagnoseMeasuredTest, WhatAFileHoldsOtherwiseIsToldWithItsShare) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("saved", "closed", "fp32");
  Steps(db);
  AddFinding(db, 4,
             {.kind = "saved_otherwise",
              .op = "torch.save",
              .dtype = "float16",
              .share = 0.957,
              .reach = R"([{"what":"state","name":"exp_avg_sq","error":0.957}])",
              .cure = "",
              .detail = R"({"what": "exp_avg_sq", "count": 8, "share": 0.957})"});
  const std::string text = Ask(folder).text;
  EXPECT_NE(text.find("has exp_avg_sq in FP16"), std::string::npos) << text;
  EXPECT_NE(text.find("96 % of the elements become 0"), std::string::npos) << text;
}

TEST(DiagnoseMeasuredTest, WhatIsWrongInTheForwardPassLeadsTheBackwardPassOfTheSameStep) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("stencil", "closed", "fp32");
  Steps(db);
  AddFinding(db, 4, {.phase = "backward", .op = "aten.add.Tensor"});
  AddFinding(db, 4, {.phase = "loss", .source = "stencil.py:38"});
  const ToolOutput answer = Ask(folder);
  EXPECT_EQ(answer.structured["first_bad"]["source"], "stencil.py:38") << answer.text;
}

TEST(DiagnoseMeasuredTest, ChangesTooSmallForFp32MatterWhereTheLossDoesNotFall) {
  for (const double to : {0.5, 2.0}) {
    TempFolder folder;
    Recording db(folder.File("m.db"));
    db.Run("settled", "closed", "fp32");
    for (int64_t step = 0; step < 100; ++step) {
      db.Step(step, {.loss = 2.0 + (to - 2.0) * static_cast<double>(step) / 99, .grad_norm = 1.0});
    }
    AddFinding(db, 4,
               {.kind = "lost_change",
                .op = "aten.copy_.default",
                .dtype = "float32",
                .share = 1.0,
                .reach = R"([{"what":"state","name":"","error":1.0}])",
                .cure = ""});
    const ToolOutput answer = Ask(folder);
    EXPECT_EQ(answer.structured["verdict"], to < 2 ? "healthy" : "degraded") << answer.text;
  }
}

TEST(DiagnoseMeasuredTest, ParametersThatNoOptimizerHoldsAreWorthALook) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("late adapter", "closed", "fp32");
  Steps(db);
  AddFinding(db, 4,
             {.kind = "not_updated",
              .severity = "INFO",
              .source = "",
              .precision = "excluded",
              .reach = "",
              .cure = "",
              .detail = R"({"parameters": ["adapter.weight"], "steps": 3})"});
  const ToolOutput answer = Ask(folder);
  EXPECT_EQ(answer.structured["verdict"], "healthy");
  EXPECT_NE(
      answer.text.substr(0, answer.text.find('\n')).find("One thing to look at: The gradient"),
      std::string::npos)
      << answer.text;
}

TEST(DiagnoseMeasuredTest, OtherModelsOfTheProgramAreNamed) {
  TempFolder folder;
  for (const char* name : {"m.db", "m-2.db"}) {
    Recording db(folder.File(name));
    db.Run("one of two", "closed", "bf16");
    Steps(db);
  }
  const Json d = Ask(folder).structured;
  EXPECT_TRUE(d["asked"].is_null());
  ASSERT_FALSE(d["limits"].empty());
  EXPECT_NE(d["limits"][0].get<std::string>().find("m-2.db"), std::string::npos) << d["limits"];
}

TEST(DiagnoseMeasuredTest, AFaultOfAnotherModelOfTheProgramIsTheAnswer) {
  TempFolder folder;
  for (const char* name : {"m.db", "m-2.db"}) {
    Recording db(folder.File(name));
    db.Run("one of two", "closed", "bf16");
    Steps(db);
    if (name == std::string("m-2.db")) AddFinding(db, 4, {});
  }
  const ToolOutput answer = Ask(folder);
  EXPECT_EQ(answer.structured["verdict"], "degraded");
  EXPECT_NE(answer.structured["run"].get<std::string>().find("m-2.db"), std::string::npos);
  EXPECT_NE(answer.structured["asked"].get<std::string>().find("m.db"), std::string::npos);
  EXPECT_NE(answer.text.find("Asked about: "), std::string::npos) << answer.text;
}

TEST(DiagnoseMeasuredTest, AFileOfAnotherProgramIsNoModelOfThisOne) {
  TempFolder folder;
  {
    Recording db(folder.File("m-2.db"));
    db.Run("another program", "closed", "bf16");
    Steps(db);
    AddFinding(db, 4, {});
  }
  Recording db(folder.File("m.db"));
  db.Run("asked about", "closed", "bf16");
  Steps(db);
  const Json d = Ask(folder).structured;
  EXPECT_EQ(d["verdict"], "healthy") << d["headline"];
}

TEST(DiagnoseMeasuredTest, NothingIsSaidOfPrecisionWithoutAShadowStep) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("nan", "closed", "fp16");
  for (int64_t step = 0; step < 40; ++step) {
    db.Step(step, {.loss = step < 20 ? 1.0 : kNan, .flags = step < 20 ? 0u : 1u});
  }
  const ToolOutput answer = Ask(folder);
  EXPECT_EQ(answer.structured["first_bad"]["precision"], "not_tested");
  EXPECT_NE(answer.structured["headline"].get<std::string>().find("not established"),
            std::string::npos);
  EXPECT_EQ(answer.text.find("It is not precision"), std::string::npos) << answer.text;
  EXPECT_NE(answer.structured["next_measurement"].get<std::string>().find("steps=18-21"),
            std::string::npos)
      << answer.structured["next_measurement"];
}

TEST(DiagnoseMeasuredTest, CodeOfTheNamedLinesIsShown) {
  TempFolder folder;
  {
    std::ofstream code(folder.File("train.py"));
    code << "import torch\n";
    for (int line = 2; line <= 60; ++line) code << "value_" << line << " = " << line << "\n";
  }
  Recording db(folder.File("m.db"));
  db.Run("silent", "closed", "bf16");
  Steps(db);
  AddFinding(db, 4, {});
  const ToolOutput answer = Ask(folder, {{"paths", Json::array({"train.py"})}});
  const Json& excerpts = answer.structured["excerpts"];
  ASSERT_EQ(excerpts.size(), 1u);
  EXPECT_EQ(excerpts[0]["source"], "train.py:40");
  EXPECT_EQ(excerpts[0]["first_line"], 35);
  ASSERT_EQ(excerpts[0]["lines"].size(), 11u);
  EXPECT_EQ(excerpts[0]["lines"][5], "value_40 = 40");
  EXPECT_NE(answer.text.find(">    40 | value_40 = 40"), std::string::npos) << answer.text;
}

TEST(DiagnoseMeasuredTest, SummaryAndDiagnosisAgree) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("silent", "closed", "bf16");
  Steps(db);
  const FindingSpec finding;
  AddShadowAlert(db, 4, finding, AddFinding(db, 4, finding));
  EXPECT_EQ(Ask(folder).structured["verdict"], "degraded");
  auto summary = Call("run_summary", {{"run", "m.db"}}, folder.path());
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->structured["stable"], false);
  EXPECT_EQ(summary->structured["verdict"], "degraded");
  EXPECT_NE(summary->structured["reasons"][1].get<std::string>().find("SHADOW_AMPLIFIED"),
            std::string::npos)
      << summary->structured["reasons"];
}

}  // namespace
}  // namespace mpnanny::test
