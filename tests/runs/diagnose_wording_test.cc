// What an answer says of measurements, word for word: which case is named, what counts as
// precision, what was tested, how the run ended.
#include <gtest/gtest.h>

#include <string>

#include "tests/runs/measured_run.h"
#include "tests/runs/recording.h"
#include "tests/runs/shadow_recording.h"

namespace mpnanny::test {
namespace {

// That exp overflowed is what many faults show: a radiance field's density is named where there is
// one.
TEST(DiagnoseWordingTest, ACaseIsNamedWhereMoreOfItIsSeenThanItsKind) {
  const auto cause = [](const std::string& module) {
    TempFolder folder;
    Recording db(folder.File("m.db"));
    db.Run("overflow", "closed", "fp16");
    const int64_t layer = db.Layer(module);
    Steps(db, 30);
    db.Alert(30, {.type = "INF", .phase = "forward", .layer = layer, .kind = 1, .producer = 1});
    FindingSpec overflow = Overflow();
    overflow.op = "aten.exp.default";
    overflow.layer = layer;
    AddFinding(db, 30, overflow);
    return Ask(folder).structured["hypotheses"][0]["cause"];
  };
  EXPECT_EQ(cause("density"), "nerf-density-exp-overflow");
  EXPECT_NE(cause("similarity"), "nerf-density-exp-overflow");
}

// FP64 stays finite, and nobody trains in it.
TEST(DiagnoseWordingTest, WhatNo32BitFormatHoldsIsNoMatterOfPrecision) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("overflow", "closed", "fp32");
  Steps(db, 30);
  FindingSpec overflow = Overflow();
  overflow.dtype = "float32";
  overflow.magnitude = 5e40;
  AddFinding(db, 30, overflow);
  const Json d = Ask(folder).structured;
  const std::string headline = d["headline"], fix = d["hypotheses"][0]["fix"];
  EXPECT_NE(headline.find("No format of 32 bits holds such a value"), std::string::npos)
      << headline;
  EXPECT_EQ(headline.find("Precision is the cause"), std::string::npos) << headline;
  EXPECT_TRUE(fix.starts_with("Find what made the values so large")) << fix;
}

TEST(DiagnoseWordingTest, ARunInFp32IsNotSentToFp32) {
  const auto next = [](const std::string& precision) {
    TempFolder folder;
    Recording db(folder.File("m.db"));
    db.Run("healthy", "closed", precision);
    Steps(db);
    return Ask(folder).structured["next_measurement"].get<std::string>();
  };
  EXPECT_NE(next("bf16").find("the same seed in FP32"), std::string::npos) << next("bf16");
  EXPECT_EQ(next("fp32").find("the same seed in FP32"), std::string::npos) << next("fp32");
}

TEST(DiagnoseWordingTest, ASignalIsToldAsOne) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("interrupted", "signal", "bf16");
  Steps(db);
  const std::string headline = Ask(folder).structured["headline"];
  EXPECT_NE(headline.find("ended by a signal (Ctrl-C"), std::string::npos) << headline;
}

// Of several steps the one that compared the most says what was left out.
TEST(DiagnoseWordingTest, UpdatesThatOneStepComparedAreTested) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("covered", "closed", "bf16");
  Steps(db);
  db.Execute(
      "UPDATE shadow_step SET detail = '{\"covered\": {\"loss\": 1, \"passes\": [1, 1], "
      "\"gradients\": "
      "[6, 6], \"updates\": [0, 6], \"states\": 0, \"not\": [\"a\", \"b\"]}}'");
  Json d = Ask(folder).structured;
  EXPECT_NE(DumpJson(d["not_tested"]).find("the updates of a, b and 4 more"), std::string::npos)
      << d["not_tested"];
  db.Execute(
      "UPDATE shadow_step SET detail = '{\"covered\": {\"loss\": 1, \"passes\": [1, 1], "
      "\"gradients\": "
      "[6, 6], \"updates\": [6, 6], \"states\": 0, \"not\": []}}' WHERE step = 4");
  d = Ask(folder).structured;
  EXPECT_EQ(DumpJson(d["not_tested"]).find("the updates of"), std::string::npos) << d["not_tested"];
  EXPECT_NE(DumpJson(d["tested"]).find("updates of 6 of 6"), std::string::npos) << d["tested"];
}

}  // namespace
}  // namespace mpnanny::test
