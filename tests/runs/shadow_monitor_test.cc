// What the monitor's own recorder writes of shadow steps is what the tools show.
#include <gtest/gtest.h>

#include <string>

#include "base/process_info.h"
#include "monitor/core/recorder.h"
#include "tests/runs/query_stats_calls.h"
#include "tests/runs/recording.h"

namespace mpnanny::test {
namespace {

void RecordShadowed(const std::string& path) {
  RecorderOptions options;
  options.path = path;
  options.run.name = "shadowed";
  options.run.started_at = UnixSeconds();
  options.run.precision = Precision::kBf16;
  auto opened = Recorder::Open(std::move(options));
  ASSERT_TRUE(opened) << opened.error().Text();
  Recorder& recorder = **opened;
  LayerRow layer;
  layer.name = "block.norm";
  const int64_t norm = recorder.AddLayer(std::move(layer), true);
  int64_t id = 0;
  for (int64_t step = 0; step < 3; ++step) {
    recorder.BeginStep(step);
    ShadowStepRow shadow;
    shadow.step = step;
    shadow.why = "first";
    shadow.seconds = 0.05;
    recorder.ShadowStep(shadow);
    ShadowFindingRow finding;
    finding.step = step;
    finding.kind = FindingKind::kAmplified;
    finding.severity = Severity::kWarning;
    finding.phase = Phase::kForward;
    finding.layer = norm;
    finding.op = "aten.sub.Tensor";
    finding.source = "train.py:40";
    finding.dtype = "bfloat16";
    finding.shape = "[4, 8]";
    finding.share = 1;
    finding.error_in = 0.004;
    finding.error_out = step == 1 ? 3.1 : 0.9;
    finding.proof = Proof::kProven;
    finding.reach = R"([{"what":"loss","name":"","error":0.2}])";
    finding.cure = R"({"lines":["train.py:40"],"operators":["aten.sub.Tensor"],"what":"float32",)"
                   R"("error_before":3.1,"error_after":0.0001})";
    id = recorder.ShadowFinding(id, finding);
    ShadowProfileRow profile;
    profile.step = step;
    profile.layer = norm;
    profile.error = 0.25;
    profile.fp16 = 0.001;
    recorder.ShadowProfile(profile);
    StepEnd end;
    end.loss = 1.0;
    recorder.EndStep(end);
  }
  ASSERT_TRUE(recorder.Close("closed"));
}

TEST(ShadowMonitorTest, WhatItWritesIsWhatToolsShow) {
  TempFolder folder;
  RecordShadowed(folder.File("m.db"));
  const std::string sentence =
      "bfloat16 subtraction at train.py:40 (block.norm, forward) turns a relative error of 0.4 % "
      "into 310 %: cancellation (the operands are nearly equal, and what is left of them is mostly "
      "rounding error). In FP32 (line 40) it would be 0.01 %. Reaches the loss (error 20 %).";
  auto summary = Call("run_summary", {{"run", "m.db"}}, folder.path());
  ASSERT_TRUE(summary) << summary.error().Text();
  const Json& shadow = summary->structured["shadow"];
  EXPECT_EQ(shadow["steps"], 3);
  EXPECT_EQ(shadow["total"], 1);
  ASSERT_EQ(shadow["findings"].size(), 1u);
  EXPECT_EQ(shadow["findings"][0]["repeats"], 3);
  EXPECT_EQ(shadow["findings"][0]["text"], sentence);

  auto alerts = Call("query_alerts", {{"run", "m.db"}}, folder.path());
  ASSERT_TRUE(alerts) << alerts.error().Text();
  ASSERT_EQ(alerts->structured["alerts"].size(), 1u) << alerts->text;
  const Json& alert = alerts->structured["alerts"][0];
  EXPECT_EQ(alert["type"], "SHADOW_AMPLIFIED");
  EXPECT_EQ(alert["message"], sentence);
  EXPECT_EQ(alert["repeats"], 3);
  EXPECT_EQ(alert["finding"]["shape"], "[4, 8]");

  EXPECT_EQ(Ask({{"metric", "findings"}}, folder)["series"][0]["finding"]["text"], sentence);
  const Json profile = Ask({{"metric", "shadow_error"}}, folder);
  EXPECT_EQ(profile["series"][0]["points"], Json::parse("[[0,0.25],[1,0.25],[2,0.25]]"));
  EXPECT_EQ(profile["series"][0]["layer"], "block.norm");
}

}  // namespace
}  // namespace mpnanny::test
