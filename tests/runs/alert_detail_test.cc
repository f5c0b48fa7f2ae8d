// What an alert says in figures, and the sentences that are made of it.
#include "engines/runs/alert_detail.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/json.h"
#include "engines/diagnosis/facts/earlier_messages.h"
#include "engines/diagnosis/facts/failed_call.h"
#include "engines/pack/redaction.h"
#include "tests/runs/recording.h"
#include "tests/runs/same_figures.h"

namespace mpnanny::runs {
namespace {

TEST(AlertDetail, OfTheTraceSaysWhatTheSentenceOfAnEarlierMonitorSaid) {
  const AlertDetail told = ParseAlertDetail(
      R"({"where":"own_code","made":["nan"],"count":3,"of":9,"traced_step":61,"operators":[
      {"operator":"aten.mul.Tensor","phase":"forward","source":"/home/me/a.py:108",
       "made":["neginf"],"count":6,"of":6,"dtype":"float16","shape":[6],"inputs":"finite",
       "largest_input":1.0},
      {"operator":"aten._softmax","source":"/home/me/b.py:19","made":["nan"],"dtype":"float16",
       "inputs":"mask"},
      {"operator":"aten.div.Tensor","backward_of":"aten.linalg_vector_norm","source":"l.py:7",
       "made":["nan"],"dtype":"float32","inputs":"infinite"},
      {"operator":"aten.mul.Tensor","autograd_node":"LogBackward0","made":["posinf"],
       "dtype":"float32","inputs":"finite","largest_input":0.25}]})");
  const AlertDetail read = diagnosis::ParseEarlierMessage(
      "attn: 3 NaN of 9 output elements in float16; its inputs are finite. None of its modules "
      "made it: it is in the code of its own forward. Traced at step 61: aten.mul.Tensor "
      "(a.py:108) made 6 -Inf of 6 elements in float16 [6]; what went in is finite, up to 1. "
      "aten._softmax (b.py:19) made 5 NaN of 6 elements in float16 [6]; what went in holds -Inf, "
      "as masks do, and nothing worse. aten.div.Tensor in the backward pass of "
      "aten.linalg_vector_norm (l.py:7) made 4 NaN of 4 elements in float32 [4]; what went in "
      "holds infinities and no NaN. aten.mul.Tensor in LogBackward0 made 1 +Inf of 4 elements in "
      "float32 [4]; what went in is finite, up to 0.25.");
  EXPECT_EQ(told.where, Where::kOwnCode);
  EXPECT_EQ(read.where, told.where);
  ASSERT_EQ(told.operators.size(), 4u);
  ASSERT_EQ(read.operators.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const NanOrigin &a = told.operators[i], &b = read.operators[i];
    EXPECT_EQ(a.op, b.op);
    EXPECT_EQ(a.of, b.of);
    EXPECT_EQ(a.backward, b.backward);
    EXPECT_EQ(a.nan, b.nan);
    EXPECT_EQ(a.posinf, b.posinf);
    EXPECT_EQ(a.neginf, b.neginf);
    EXPECT_EQ(a.dtype, b.dtype);
    EXPECT_EQ(a.inputs, b.inputs);
    EXPECT_EQ(a.largest, b.largest);
    EXPECT_EQ(a.place, b.place);
  }
}

TEST(AlertDetail, RedactionHidesNamesAndKeepsWhatHappened) {
  const std::string hidden = pack::RedactedJson(
      R"({"where":"own_code","after":"apollo.mask","gradients":{"not_finite":7,"of":8},
      "operators":[{"operator":"aten.div.Tensor","backward_of":"aten.sqrt","module":"apollo.mask",
       "source":"/home/jane/apollo.py:7","made":["nan","posinf"],"dtype":"float16","shape":[4],
       "inputs":"mask","largest_input":2.5}],
      "batch":{"call":2,"inputs":[{"input":0,"dtype":"float32","shape":[8,16],"nan":2,"rows":[3],
       "row_count":1,"columns":[12],"column_count":1}]}})");
  for (const char* word : {"apollo", "jane", "\"after\":\"mask"}) {
    EXPECT_EQ(hidden.find(word), std::string::npos) << hidden;
  }
  const AlertDetail detail = ParseAlertDetail(hidden);
  EXPECT_EQ(detail.where, Where::kOwnCode);
  EXPECT_EQ(detail.bad_gradients, 7);
  ASSERT_EQ(detail.operators.size(), 1u) << hidden;
  const NanOrigin& origin = detail.operators[0];
  EXPECT_EQ(origin.op, "div");
  EXPECT_EQ(origin.of, "sqrt");
  EXPECT_TRUE(origin.nan && origin.posinf && !origin.neginf);
  EXPECT_EQ(origin.inputs, NanOrigin::Inputs::kMask);
  EXPECT_EQ(origin.largest, 2.5);
  EXPECT_TRUE(origin.place.ends_with(":7"));
  EXPECT_EQ(BatchText(detail, 3),
            "batch of step 3, its forward pass 2: input 0 (float32 [8, 16]) has 2 NaN, in row 3 of "
            "8, column 12 of 16");
}

TEST(AlertDetail, WhatIsDamagedReadsAsAbsent) {
  for (const char* text :
       {"", "[]", "{", "7", R"({"where":7,"operators":{"a":1},"gradients":[8],"batch":"x"})",
        R"({"operators":[1,null,"a"],"batch":{"inputs":[[]]}})"}) {
    const AlertDetail detail = ParseAlertDetail(text);
    EXPECT_EQ(detail.where, Where::kUnknown) << text;
    EXPECT_TRUE(detail.operators.empty()) << text;
    EXPECT_FALSE(detail.gradients) << text;
    EXPECT_EQ(BatchText(detail, 1), "") << text;
  }
}

TEST(AlertDetail, ABatchIsToldByItsRowsAndColumns) {
  const AlertDetail detail = ParseAlertDetail(
      R"({"where":"batch","batch":{"call":2,"inputs":[
      {"input":0,"dtype":"float32","shape":[8,16],"nan":2,"posinf":1,"neginf":0,"rows":[3,5],
       "row_count":2,"columns":[12],"column_count":1},
      {"input":2,"dtype":"float16","shape":[64],"nan":9,"posinf":0,"neginf":0,
       "rows":[0,1,2,3,4,5,6,7],"row_count":9}]}})");
  EXPECT_EQ(detail.where, Where::kBatch);
  EXPECT_EQ(BatchText(detail, 17),
            "batch of step 17, its forward pass 2: input 0 (float32 [8, 16]) has 2 NaN and 1 +Inf, "
            "in rows 3 and 5 of 8, column 12 of 16; input 2 (float16 [64]) has 9 NaN, in rows 0, "
            "1, 2, 3, 4, 5, 6, 7 and 1 more of 64");
}

std::string RangeOf(const char* tensors) {
  auto json = ParseJson(std::string(R"({"error":"IndexError","tensors":)") + tensors + "}");
  EXPECT_TRUE(json);
  const runs::Sentence range = diagnosis::OutOfRangeText(diagnosis::ParseFailedCall(3, *json));
  test::ExpectChinese(range);
  return range.English();
}

TEST(FailedCall, LabelsAreHeldAgainstTheTensorThatTheyCountIn) {
  EXPECT_EQ(RangeOf(R"([{"name":"input","dtype":"float32","shape":[32,10]},
                        {"name":"target","dtype":"int64","shape":[32],"min":0,"max":10}])"),
            "target holds 10, and input has 10 along dimension 1: 0 to 9 is allowed");
  EXPECT_EQ(RangeOf(R"([{"name":"input","dtype":"int64","shape":[4,7],"min":-3,"max":5},
                        {"name":"weight","dtype":"float32","shape":[50,8]}])"),
            "input holds -3, and weight has 50 along dimension 0: 0 to 49 is allowed");
  EXPECT_EQ(RangeOf(R"([{"name":"input","dtype":"float32","shape":[32,10]},
                        {"name":"target","dtype":"int64","shape":[32],"min":-100,"max":9}])"),
            "");  // ignored on purpose
}

// An error within an operator that the monitor called may be the monitor's.
TEST(FailedCall, WhatCameThroughTheMonitorIsNotSurelyTheProgramsFault) {
  const auto answer = [](const char* detail) {
    test::TempFolder folder;
    {
      test::Recording db(folder.File("m.db"));
      db.Run("stopped");
      for (int64_t step = 0; step < 30; ++step) db.Step(step, {.loss = 1.0 / (1.0 + step)});
      db.Execute(std::string("INSERT INTO event (run_id, step, at, type, detail) VALUES "
                             "(1, 29, 0, 'exception', '") +
                 detail + "')");
    }
    auto output = test::Call("diagnose_run", {{"run", "m.db"}}, folder.path());
    EXPECT_TRUE(output);
    return output ? DumpJson(output->structured) : "";
  };
  const std::string through = answer(
      R"({"error":"RuntimeError","text":"expected scalar type Half but found Float",
          "source":"a.py:3","through_mode":true})");
  EXPECT_NE(through.find("does not come with --shadow off, the fault is mpnanny's"),
            std::string::npos)
      << through;
  EXPECT_EQ(through.find("None is needed for the exception"), std::string::npos) << through;
  EXPECT_EQ(answer(R"({"error":"RuntimeError","text":"expected scalar type Half but found Float",
                       "source":"a.py:3"})")
                .find("--shadow off"),
            std::string::npos);
}

// One run whose loss takes the logarithm of 0, as three monitors tell it.
Json Diagnosed(int version, const std::string& message, const std::string& detail) {
  test::TempFolder folder;
  {
    test::Recording db(folder.File("m.db"), /*wal=*/false, version);
    db.Run("log");
    const int64_t log = db.Layer("aten.log (train.py:57)", "/home/me/train.py:57", "operator");
    for (int64_t step = 0; step < 80; ++step) {
      const double nan = std::numeric_limits<double>::quiet_NaN();
      db.Step(step, {.loss = step < 60 ? 1.0 : nan, .scale = 1024.0});
    }
    db.Alert(60, {.type = "LOSS_NAN",
                  .phase = "loss",
                  .layer = log,
                  .producer = 1,
                  .message = message,
                  .detail = detail});
  }
  auto output = test::Call("diagnose_run", {{"run", "m.db"}}, folder.path());
  EXPECT_TRUE(output);
  if (!output) return nullptr;
  Json answer = output->structured;
  Json causes = Json::array();
  for (const Json& each : answer["hypotheses"]) {
    causes.push_back({each["cause"], each["confidence"]});
  }
  return {{"verdict", answer["verdict"]},
          {"first_bad", answer["first_bad"]},
          {"observations", answer["observations"]},
          {"causes", causes}};
}

TEST(AlertDetail, ARunOfVersionOneIsDiagnosedAsOneOfVersionTwo) {
  const std::string sentence =
      "The loss is NaN. Traced at step 61: aten.log (train.py:57) made 3 -Inf of 256 elements in "
      "float16 [16, 16]; what went in is finite, up to 0.5.";
  const Json first = Diagnosed(1, sentence, "");
  const Json second = Diagnosed(
      2, "",
      R"({"where":"loss","made":["nan"],"traced_step":61,"operators":[{"operator":"aten.log",
      "phase":"loss","source":"/home/me/train.py:57","made":["neginf"],"count":3,"of":256,
      "dtype":"float16","shape":[16,16],"inputs":"finite","largest_input":0.5}]})");
  EXPECT_EQ(first, second);
  EXPECT_EQ(first, Diagnosed(2, sentence, "")) << "a monitor that left the column empty";
  ASSERT_FALSE(first["causes"].empty());
  EXPECT_NE(first["observations"].dump().find("log (train.py:57)"), std::string::npos) << first;
  EXPECT_NE(first, Diagnosed(2, "", "")) << "nothing is told";
  // What stands in the column counts, whatever the sentence says.
  EXPECT_EQ(Diagnosed(2, sentence, R"({"where":"loss"})"), Diagnosed(2, "", R"({"where":"loss"})"));
}

TEST(AlertDetail, ABrokenBatchIsToldByTheToolsThatShowIt) {
  test::TempFolder folder;
  {
    test::Recording db(folder.File("m.db"));
    db.Run("data");
    for (int64_t step = 0; step < 60; ++step) db.Step(step, {.loss = 1.0});
    db.Alert(17, {.type = "NAN",
                  .phase = "data",
                  .kind = 0,
                  .producer = 1,
                  .detail = R"({"where":"batch","batch":{"call":1,"inputs":[{"input":0,)"
                            R"("dtype":"float32","shape":[8,16],"nan":2,"posinf":0,"neginf":0,)"
                            R"("rows":[3,5],"row_count":2,"columns":[12],"column_count":1}]}})"});
  }
  const std::string words =
      "The batch of step 17: input 0 (float32 [8, 16]) has 2 NaN, in rows 3 and 5 of 8, column 12 "
      "of 16.";
  for (const char* tool : {"diagnose_run", "query_alerts"}) {
    auto output = test::Call(tool, {{"run", "m.db"}}, folder.path());
    ASSERT_TRUE(output) << tool;
    EXPECT_NE(output->text.find(words), std::string::npos) << output->text;
    EXPECT_NE(output->structured.dump().find(words), std::string::npos) << output->text;
  }
}

TEST(FailedCall, LabelsOutOfRangeAreNoHealthyRun) {
  test::TempFolder folder;
  {
    test::Recording db(folder.File("m.db"));
    db.Run("labels", "exception");
    for (int64_t step = 0; step < 60; ++step) db.Step(step, {.loss = 1.0});
    db.Execute(
        R"(INSERT INTO event (run_id, step, at, type, detail) VALUES (1, 60, 0, 'exception',
        '{"error":"IndexError","text":"Target 10 is out of bounds.","source":"train.py:9",
        "function":"cross_entropy","tensors":[{"name":"input","dtype":"float32","shape":[4,10]},
        {"name":"target","dtype":"int64","shape":[4],"min":0,"max":10}]}'))");
  }
  auto output = test::Call("diagnose_run", {{"run", "m.db"}}, folder.path());
  ASSERT_TRUE(output);
  EXPECT_EQ(output->structured["verdict"], "broken");
  EXPECT_NE(output->text.find(
                "ended at step 60 with IndexError: Target 10 is out of bounds (train.py:9). Out of "
                "range: target holds 10, and input has 10 along dimension 1: 0 to 9 is allowed."),
            std::string::npos)
      << output->text;
}

}  // namespace
}  // namespace mpnanny::runs
