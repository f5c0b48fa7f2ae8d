// What the tools over runs show of shadow steps.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/runs/query_stats_calls.h"
#include "tests/runs/recording.h"
#include "tests/runs/shadow_recording.h"

namespace mpnanny::test {
namespace {

constexpr char kSentence[] =
    "bfloat16 subtraction at train.py:40 (block.norm, forward) turns a relative error of 0.4 % "
    "into "
    "310 %: cancellation";

// 100 steps of 10 ms; shadow steps at 0, 50, 99; two findings with their alerts.
void WriteRun(Recording& db) {
  db.Run("shadowed", "closed", "bf16");
  const int64_t norm = db.Layer("block.norm"), head = db.Layer("head");
  db.Execute("BEGIN");
  for (int64_t step = 0; step < 100; ++step) db.Step(step, {.loss = 1.0});
  for (const int64_t step : {0, 50, 99}) {
    AddShadowStep(db, step);
    AddProfile(db, step, norm, 0, 0.01 * static_cast<double>(step), 0.001);
    AddProfile(db, step, norm, 1, {}, 0.002);
    AddProfile(db, step, head, 0, 0.5, step == 50 ? Real(0.9) : Real());
  }
  const FindingSpec sub{.layer = norm, .last_step = 99, .repeats = 3};
  AddShadowAlert(db, 0, sub, AddFinding(db, 0, sub));
  AddFinding(db, 50,
             {.kind = "clipped", .severity = "INFO", .layer = head, .reach = "", .cure = ""});
  db.Execute("COMMIT");
}

ToolOutput Told(const std::string& tool, const Json& arguments, const TempFolder& folder,
                size_t bytes = kAnswerBytes) {
  auto output = Call(tool, arguments, folder.path(), bytes);
  EXPECT_TRUE(output) << (output ? "" : output.error().Text());
  return output ? *output : ToolOutput{};
}

TEST(ShadowToolsTest, SummaryHasABlockAndAParagraph) {
  TempFolder folder;
  {
    Recording db(folder.File("m.db"));
    WriteRun(db);
  }
  const ToolOutput output = Told("run_summary", {{"run", "m.db"}}, folder);
  const Json& shadow = output.structured["shadow"];
  EXPECT_EQ(shadow["steps"], 3);
  EXPECT_EQ(shadow["seconds"], 0.18);
  EXPECT_EQ(shadow["overhead_share"], 0.15);
  EXPECT_EQ(shadow["total"], 2);
  ASSERT_EQ(shadow["findings"].size(), 2u);
  const Json& finding = shadow["findings"][0];
  EXPECT_EQ(finding["step"], 0);
  EXPECT_EQ(finding["last_step"], 99);
  EXPECT_EQ(finding["repeats"], 3);
  EXPECT_EQ(finding["kind"], "amplified");
  EXPECT_EQ(finding["module"], "block.norm");
  EXPECT_EQ(finding["operator"], "aten.sub.Tensor");
  EXPECT_EQ(finding["source"], "train.py:40");
  EXPECT_EQ(finding["error_out"], 3.1);
  EXPECT_EQ(finding["share"], nullptr);
  EXPECT_EQ(finding["precision"], "proven");
  EXPECT_EQ(finding["reach"][0]["what"], "loss");
  EXPECT_EQ(finding["cure"]["lines"].size(), 3u);
  EXPECT_EQ(finding["text"].get<std::string>().find(kSentence), 0u) << finding["text"];
  EXPECT_NE(output.text.find("3 shadow steps"), std::string::npos) << output.text;
  EXPECT_NE(output.text.find("WARNING at step 0, seen in 3 shadow steps up to step 99: " +
                             std::string(kSentence)),
            std::string::npos)
      << output.text;
  // Of the newest step.
  EXPECT_EQ(shadow["formats"]["step"], 99);
  EXPECT_EQ(shadow["formats"]["layers"], 2);
  EXPECT_EQ(shadow["formats"]["worst"]["fp16"],
            Json::parse(R"({"error":0.002,"layer":"block.norm","phase":"backward"})"));
  EXPECT_EQ(shadow["formats"]["worst"]["fp16_underflow"]["share"], 0.125);
  EXPECT_FALSE(shadow["formats"]["worst"].contains("fp16_overflow"));  // 0
  EXPECT_NE(output.text.find("FP16 0.2 % (block.norm's gradient), BF16 0.2 % (block.norm), "
                             "E4M3 3 % (block.norm), E5M2 6 % (block.norm). FP16 would round 12 % "
                             "of block.norm to 0."),
            std::string::npos)
      << output.text;
  static const DataFiles data = *DataFiles::Create();
  const std::string page =
      FindTool("run_summary").definition.command.formats.at("md")(output.structured, {data, false});
  EXPECT_NE(page.find("## What shadow steps found"), std::string::npos) << page;
  EXPECT_NE(page.find("bfloat16 subtraction at train.py:40"), std::string::npos) << page;
}

TEST(ShadowToolsTest, ARunWithoutShadowStepsSaysNothingOfThem) {
  for (const int version : {1, 2}) {
    TempFolder folder;
    {
      Recording db(folder.File("m.db"), false, version);
      db.Run("plain");
      db.Step(0, {.loss = 1.0});
    }
    const ToolOutput output = Told("run_summary", {{"run", "m.db"}}, folder);
    EXPECT_EQ(output.structured["shadow"], nullptr);
    EXPECT_EQ(output.text.find("hadow"), std::string::npos) << output.text;
    EXPECT_EQ(
        Told("query_stats", {{"run", "m.db"}, {"metric", "findings"}}, folder).structured["total"],
        0);
    EXPECT_EQ(Told("query_stats", {{"run", "m.db"}, {"metric", "bf16_error"}}, folder)
                  .structured["total"],
              0);
  }
}

TEST(ShadowToolsTest, ShadowStepsThatFoundNothingAreTold) {
  TempFolder folder;
  {
    Recording db(folder.File("m.db"));
    db.Run("sound");
    db.Step(0, {.loss = 1.0});
    AddShadowStep(db, 0, 0.05, {});
  }
  const ToolOutput output = Told("run_summary", {{"run", "m.db"}}, folder);
  EXPECT_EQ(output.structured["shadow"]["total"], 0);
  EXPECT_EQ(output.structured["shadow"]["overhead_share"], nullptr);
  EXPECT_NE(output.text.find("no finding."), std::string::npos) << output.text;
  EXPECT_NE(Told("query_stats", {{"run", "m.db"}, {"metric", "findings"}}, folder)
                .text.find("found nothing"),
            std::string::npos);
}

TEST(ShadowToolsTest, LongFindingsKeepToTheSizeOfAnAnswer) {
  TempFolder folder;
  {
    Recording db(folder.File("m.db"));
    db.Run("long");
    db.Step(0, {.loss = 1.0});
    const std::string path = "/home/\"user\"/\\" + std::string(200, 'p') + "/train.py:";
    Json reach = Json::array(), lines = Json::array();
    for (int i = 0; i < 40; ++i) {
      reach.push_back({{"what", "state"}, {"name", std::string(150, 'n')}, {"error", 0.5}});
      lines.push_back(path + std::to_string(3 * i));
    }
    for (int i = 0; i < 40; ++i) {
      const FindingSpec spec{
          .layer = db.Layer(std::string(1000, 'l') + std::to_string(i)),
          .source = path + std::to_string(i),
          .reach = DumpJson(reach),
          .cure = DumpJson({{"lines", lines}, {"what", "float32"}, {"error_after", 0.01}})};
      AddShadowAlert(db, 0, spec, AddFinding(db, 0, spec));
      db.Alert(0, {.type = "TYPE_" + std::to_string(i), .severity = "WARNING"});
    }
    AddShadowStep(db, 0);
  }
  const Json summary = Told("run_summary", {{"run", "m.db"}}, folder).structured;
  EXPECT_EQ(summary["shadow"]["total"], 40);
  EXPECT_GE(summary["shadow"]["findings"].size(), 1u);
  EXPECT_FALSE(summary["alerts"].empty());
  std::set<std::string> sources;
  Json arguments = {{"run", "m.db"}, {"metric", "findings"}};
  for (int page = 0; page < 50; ++page) {
    const Json answer = Told("query_stats", arguments, folder).structured;
    EXPECT_EQ(answer["total"], 40);
    for (const Json& series : answer["series"]) {
      EXPECT_TRUE(sources.insert(series["finding"]["source"]).second) << "shown twice";
    }
    if (!answer.contains("next_cursor")) break;
    arguments["cursor"] = answer["next_cursor"];
  }
  EXPECT_EQ(sources.size(), 40u);
  Told("query_alerts", {{"run", "m.db"}}, folder);
  EXPECT_EQ(Told("run_summary", {{"run", "m.db"}}, folder, 1'000'000)
                .structured["shadow"]["findings"]
                .size(),
            5u);
}

TEST(ShadowToolsTest, AlertsShowTheirFinding) {
  TempFolder folder;
  {
    Recording db(folder.File("m.db"));
    WriteRun(db);
    db.Alert(60, {.type = "NAN"});
    // Its row of findings is gone; what the alert itself says is left.
    const FindingSpec range{.kind = "range", .severity = "ERROR", .source = "model.py:9"};
    AddShadowAlert(db, 70, range, 12345);
    // Nothing is left.
    db.Alert(80, {.type = "SHADOW_RANGE"});
    db.Execute("UPDATE alert SET detail='{\"finding\":\"x\"' WHERE step=80");
  }
  const ToolOutput output = Told("query_alerts", {{"run", "m.db"}}, folder);
  const Json& alerts = output.structured["alerts"];
  ASSERT_EQ(alerts.size(), 4u);
  EXPECT_EQ(alerts[0]["type"], "SHADOW_AMPLIFIED");
  EXPECT_EQ(alerts[0]["message"].get<std::string>().find(kSentence), 0u) << alerts[0];
  const Json& finding = alerts[0]["finding"];
  EXPECT_EQ(finding["operator"], "aten.sub.Tensor");
  EXPECT_EQ(finding["error_in"], 0.004);
  EXPECT_EQ(finding["cure"]["error_after"], 0.0001);
  EXPECT_FALSE(finding.contains("text")) << "the message has it";
  EXPECT_NE(output.text.find(kSentence), std::string::npos) << output.text;
  EXPECT_FALSE(alerts[1].contains("finding"));
  EXPECT_EQ(alerts[1]["message"], "as measured");
  EXPECT_EQ(alerts[2]["finding"]["source"], "model.py:9");
  EXPECT_NE(alerts[2]["message"].get<std::string>().find("subtraction at model.py:9"),
            std::string::npos)
      << alerts[2];
  EXPECT_FALSE(alerts[3].contains("finding"));
  EXPECT_EQ(alerts[3]["message"], "as measured");
}

TEST(ShadowToolsTest, ProfilesAreMetricsOfLayers) {
  TempFolder folder;
  {
    Recording db(folder.File("m.db"));
    WriteRun(db);
  }
  const Json error = Ask({{"metric", "shadow_error"}}, folder);
  EXPECT_EQ(error["unit"], "ratio");
  ASSERT_EQ(error["series"].size(), 2u) << "the backward pass has no figure";
  EXPECT_EQ(error["series"][0]["layer"], "block.norm");
  EXPECT_EQ(error["series"][0]["kind"], "forward");
  EXPECT_EQ(error["series"][0]["points"], Json::parse("[[0,0.0],[50,0.5],[99,0.99]]"));
  EXPECT_EQ(error["steps"]["all"], true);
  EXPECT_EQ(error["steps"]["looked_at"], 3);
  const Json fp16 = Ask({{"metric", "fp16_error"}, {"order", "largest"}}, folder);
  ASSERT_EQ(fp16["series"].size(), 3u);
  EXPECT_EQ(fp16["series"][0]["layer"], "head");
  EXPECT_EQ(fp16["series"][0]["points"], Json::parse("[[50,0.9]]"));
  EXPECT_EQ(fp16["series"][1]["kind"], "backward");
  for (const char* metric :
       {"shadow_amplification", "shadow_absmax", "shadow_rms", "bf16_error", "e4m3_error",
        "e5m2_error", "fp16_overflow", "fp16_underflow", "shadow_operators"}) {
    EXPECT_EQ(Ask({{"metric", metric}}, folder)["series"].size(), 3u) << metric;
  }
  EXPECT_EQ(Ask({{"metric", "fp16_underflow"}}, folder)["series"][0]["points"][0][1], 0.125);
  // Layers, kinds, steps and grouping count as for any metric.
  EXPECT_EQ(Ask({{"metric", "bf16_error"}, {"layers", {"head"}}}, folder)["series"].size(), 1u);
  EXPECT_EQ(Ask({{"metric", "bf16_error"}, {"kinds", {"gradient"}}}, folder)["series"][0]["kind"],
            "backward");
  EXPECT_EQ(Ask({{"metric", "activation.bf16_error"}}, folder)["series"].size(), 2u);
  EXPECT_EQ(Ask({{"metric", "shadow_error"}, {"steps", "40..60"}}, folder)["series"][0]["points"],
            Json::parse("[[50,0.5]]"));
  const Json all = Ask({{"metric", "shadow_error"}, {"aggregate", "step"}}, folder);
  EXPECT_EQ(all["series"][0]["points"], Json::parse("[[0,0.5],[50,0.5],[99,0.99]]"));
  EXPECT_EQ(all["series"][0]["worst"]["layer"], "block.norm");
  EXPECT_EQ(Ask({{"metric", "shadow_error"}, {"aggregate", "block"}}, folder)["series"].size(), 2u);
}

TEST(ShadowToolsTest, FindingsAreAMetricToo) {
  TempFolder folder;
  {
    Recording db(folder.File("m.db"));
    WriteRun(db);
  }
  const Json answer = Ask({{"metric", "findings"}}, folder);
  EXPECT_EQ(answer["total"], 2);
  const Json& series = answer["series"][0];
  EXPECT_EQ(series["layer"], "block.norm");
  EXPECT_EQ(series["kind"], "amplified");
  EXPECT_EQ(series["points"], Json::parse("[[0,3.1],[99,3.1]]"));
  EXPECT_EQ(series["finding"]["text"].get<std::string>().find(kSentence), 0u);
  EXPECT_EQ(answer["steps"]["looked_at"], 3);
  EXPECT_EQ(Ask({{"metric", "findings"}, {"layers", {"head"}}}, folder)["total"], 1);
  EXPECT_EQ(Ask({{"metric", "findings"}, {"top", 1}}, folder)["series"].size(), 1u);
  EXPECT_EQ(Ask({{"metric", "findings"}, {"steps", "60..70"}}, folder)["total"], 1);
  const Error wrong = Refused({{"metric", "findings"}, {"cursor", "7.7"}}, folder);
  EXPECT_NE(wrong.message.find("7.7"), std::string::npos);
  EXPECT_NE(Refused({{"metric", "finding"}}, folder).message.find("findings"), std::string::npos);
}

TEST(ShadowToolsTest, VeryManyShadowStepsAreReadInPart) {
  TempFolder folder;
  {
    Recording db(folder.File("m.db"));
    db.Run("many");
    for (int i = 0; i < 200; ++i) db.Layer("l" + std::to_string(i));
    db.Execute(
        "INSERT INTO shadow_profile (run_id, step, layer_id, phase, error) WITH RECURSIVE"
        " n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n WHERE i<199999)"
        " SELECT 1, i/200, 1+i%200, 0, i*1e-6 FROM n");
  }
  const Json some = Ask({{"metric", "shadow_error"}, {"top", 1}}, folder);
  EXPECT_EQ(some["steps"]["all"], false);
  EXPECT_EQ(some["steps"]["recorded"], 1000);
  EXPECT_EQ(some["series"][0]["layer"], "l199");
  const Json full =
      Ask({{"metric", "shadow_error"}, {"top", 1}, {"detail", "full"}}, folder, 64'000);
  EXPECT_EQ(full["steps"]["all"], true);
  EXPECT_EQ(full["steps"]["looked_at"], 1000);
}

}  // namespace
}  // namespace mpnanny::test
