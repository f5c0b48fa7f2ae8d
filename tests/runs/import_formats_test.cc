// Files of other programs, read as runs: what they say, and nothing else.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/base64.h"
#include "engines/runs/import/crc32c.h"
#include "tests/runs/import_files.h"

namespace mpnanny::test {
namespace fs = std::filesystem;
namespace {

// What torch 2.13's SummaryWriter wrote: steps 0, 10, 20 with "train/loss" 2.5, 2.25, NaN as
// simple_value and "lr" 0.5 as a tensor.
constexpr char kByTorch[] =
    "SAAAAAAAAAD+kkidCUuS4VKhwNpBGg1icmFpbi5FdmVudDoyUi4KLHRlbnNvcmJvYXJkLnN1bW1hcnkud3JpdGVyLmV2"
    "ZW50X2ZpbGVfd3JpdGVyOZQGbR4AAAAAAAAA2dwSMgmY2eFSocDaQSoTChEKCnRyYWluL2xvc3MVAAAgQPEwxFsoAAAA"
    "AAAAAP9wFkoJTNrhUqHA2kEqHQobCgJsckIICAEqBAAAAD9KCwoJCgdzY2FsYXJzkCCivSAAAAAAAAAAKe2pUAl72uFS"
    "ocDaQRAKKhMKEQoKdHJhaW4vbG9zcxUAABBAsxIy9yoAAAAAAAAAro2R9Qm92uFSocDaQRAKKh0KGwoCbHJCCAgBKgQA"
    "AAA/SgsKCQoHc2NhbGFycxKcQWogAAAAAAAAACntqVAJ4NrhUqHA2kEQFCoTChEKCnRyYWluL2xvc3MVAADAf4TAMQQq"
    "AAAAAAAAAK6NkfUJEtvhUqHA2kEQFCodChsKAmxyQggIASoEAAAAP0oLCgkKB3NjYWxhcnOPpLOI";

TEST(ImportTest, TheChecksumIsCrc32c) {
  EXPECT_EQ(imports::Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(imports::Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(imports::Crc32c("6789", imports::Crc32c("12345")), 0xe3069283u);
}

TEST(ImportTest, EventsOfTorch) {
  TempFolder folder;
  folder.Write("events.out.tfevents.1.host", *DecodeBase64(kByTorch));
  for (const std::string path : {"events.out.tfevents.1.host", "."}) {
    const ReadLog log = ReadAsRun(folder, path);
    ASSERT_EQ(log.steps.size(), 3u) << log.error;
    EXPECT_EQ(log.format, "TensorBoard event files");
    EXPECT_EQ(log.steps[1].step, 10);
    EXPECT_EQ(log.steps[1].loss, 2.25);
    EXPECT_EQ(log.steps[1].lr, 0.5);
    EXPECT_TRUE(std::isnan(*log.steps[2].loss));
    EXPECT_NEAR(*log.steps[0].at, 1795327307.5, 1);
  }
}

TEST(ImportTest, EventsOfSeveralFilesAndTheNamesOfTags) {
  TempFolder folder;
  std::string first, second;
  for (int64_t step = 0; step < 100; ++step) {
    first += Scalar("train/loss", step, 2.0F) + Scalar("val/loss", step, 9.0F) +
             Scalar("train/loss_cls", step, 1.0F) + Scalar("lm loss vs samples", step * 64, 8.0F) +
             Scalar("train/grad_norm", step, 1.5F) + Scalar("scaler/loss_scale", step, 1024.0F) +
             Scalar("lr-AdamW", step, 0.1F);
  }
  // Resumed from step 60 in a second file: what was there before is gone.
  for (int64_t step = 60; step < 80; ++step) second += Scalar("train/loss", step, 1.0F);
  folder.Write("events.out.tfevents.100.a", first);
  folder.Write("events.out.tfevents.200.a", second);
  const ReadLog log = ReadAsRun(folder, ".");
  EXPECT_EQ(log.Find(59)->loss, 2.0);
  EXPECT_EQ(log.Find(60)->loss, 1.0);
  EXPECT_EQ(log.Find(79)->loss, 1.0);
  EXPECT_FALSE(log.Find(85)->loss);  // the attempt that was given up
  EXPECT_EQ(log.Find(85)->loss_scale, 1024);
  EXPECT_EQ(log.Find(5)->grad_norm, 1.5);
  EXPECT_NEAR(*log.Find(5)->lr, 0.1, 1e-6);
  EXPECT_FALSE(log.Find(6400)) << "samples are no steps";
  EXPECT_NE(log.notes.find("val/loss"), std::string::npos) << log.notes;
  EXPECT_NE(log.notes.find("go back"), std::string::npos) << log.notes;
}

TEST(ImportTest, ScalarsThatAreTensors) {
  TempFolder folder;
  const auto content = [](int dtype, std::string_view bytes) {
    return WireInt(1, static_cast<uint64_t>(dtype)) + WireBytes(4, bytes);
  };
  folder.Write(
      "e.tfevents",
      TensorScalar("loss", 1, content(2, std::string_view("\0\0\0\0\0\0\x04\x40", 8))) +
          TensorScalar("loss", 2, content(19, std::string_view("\x00\x7c", 2))) +    // half Inf
          TensorScalar("loss", 3, content(14, std::string_view("\x20\x40", 2))) +    // bfloat16 2.5
          TensorScalar("loss", 4, WireInt(1, 9) + WireBytes(10, Varint(3))) +        // packed int64
          TensorScalar("loss", 5, WireInt(1, 19) + WireBytes(13, Varint(0x3e00))) +  // half 1.5
          TensorScalar("loss", 6, content(1, std::string(8, '\0'))));                // two floats
  const ReadLog log = ReadAsRun(folder, "e.tfevents");
  ASSERT_EQ(log.steps.size(), 5u) << log.error;
  EXPECT_EQ(log.steps[0].loss, 2.5);
  EXPECT_TRUE(std::isinf(*log.steps[1].loss));
  EXPECT_EQ(log.steps[2].loss, 2.5);
  EXPECT_EQ(log.steps[3].loss, 3);
  EXPECT_EQ(log.steps[4].loss, 1.5);
}

TEST(ImportTest, AFolderWithSeveralRunsNamesThem) {
  TempFolder folder;
  folder.Write("lightning_logs/version_0/events.out.tfevents.1", Scalar("loss", 0, 1.0F));
  EXPECT_EQ(ReadAsRun(folder, ".").steps.size(), 1u);
  folder.Write("lightning_logs/version_1/events.out.tfevents.1", Scalar("loss", 0, 2.0F));
  const ReadLog log = ReadAsRun(folder, ".");
  EXPECT_NE(log.error.find("version_0"), std::string::npos) << log.error;
  EXPECT_NE(log.error.find("version_1"), std::string::npos) << log.error;
  EXPECT_EQ(ReadAsRun(folder, "lightning_logs/version_1").steps[0].loss, 2.0);
}

TEST(ImportTest, AMonitorsDatabaseInTheFolderGoesBeforeLogs) {
  TempFolder folder;
  folder.Write("events.out.tfevents.1", Scalar("loss", 0, 1.0F));
  Recording db(folder.File("nanny_logs/metrics.db"));
  db.Run("watched");
  db.Step(0, {.loss = 5.0});
  const ReadLog log = ReadAsRun(folder, ".");
  EXPECT_EQ(log.format, "");
  EXPECT_EQ(log.steps.at(0).loss, 5.0);
}

TEST(ImportTest, LinksOutOfTheFolderAreNotFollowed) {
  TempFolder outside, folder;
  outside.Write("events.out.tfevents.1", Scalar("loss", 0, 1.0F));
  fs::create_directory(folder.File("logs"));
  fs::create_symlink(outside.File("events.out.tfevents.1"), folder.File("logs/a.tfevents.1"));
  fs::create_directory_symlink(outside.path(), folder.File("logs/sub"));
  EXPECT_TRUE(ReadAsRun(folder, "logs").steps.empty());
}

TEST(ImportTest, WandbHistory) {
  TempFolder folder;
  std::vector<std::string> records;
  records.push_back(
      WireBytes(17, WireBytes(8, "brave-sun-1") + WireBytes(17, WireInt(1, 1'700'000'000)) +
                        WireBytes(4, WireBytes(1, WireBytes(1, "fp16") + WireBytes(16, "true")))));
  for (int64_t step = 0; step < 400; ++step) {
    records.push_back(History(
        step, {{"train/loss", step < 300 ? "2.5" : "\"NaN\""},
               {"train/grad_norm", step < 300 ? "1.0" : "\"Infinity\""},
               {"loss_scale", "65536"},
               {"eval/loss", "9"},
               {"_timestamp", "1.7e9"},
               {"histogram", "{\"values\": [1, 2], \"bins\": [3], \"_type\": \"histogram\"}"},
               {"text", "\"" + std::string(200, 'x') + "\""}}));
  }
  // Longer than two blocks: first, middle and last part.
  records.push_back(
      History(400, {{"long", "\"" + std::string(80'000, 'y') + "\""}, {"train/loss", "7"}}));
  folder.Write("wandb/offline-run-1/run-abc.wandb", WandbFile(records));
  folder.Write("wandb/offline-run-1/files/output.log",
               "ValueError: Attempting to unscale FP16 gradients.\n");
  for (const std::string path : {"wandb", "wandb/offline-run-1/run-abc.wandb"}) {
    const ReadLog log = ReadAsRun(folder, path);
    ASSERT_EQ(log.steps.size(), 401u) << log.error;
    EXPECT_EQ(log.name, "brave-sun-1");
    EXPECT_EQ(log.precision, "fp16");
    EXPECT_EQ(log.steps[10].loss, 2.5);
    EXPECT_TRUE(std::isnan(*log.steps[300].loss));
    EXPECT_TRUE(std::isinf(*log.steps[300].grad_norm));
    EXPECT_EQ(log.steps[400].loss, 7);
  }
  auto answer = Call("diagnose_run", {{"run", "wandb"}}, folder.path());
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->structured["first_bad"]["step"], 300);
  EXPECT_NE(DumpJson(answer->structured["hypotheses"]).find("half-params-attempting-to-unscale"),
            std::string::npos)
      << "what the run printed is evidence: " << answer->text;
}

TEST(ImportTest, StepsInBracketsOfAnEpoch) {
  TempFolder folder;
  std::string text;
  for (int step = 370; step < 420; step += 10) {
    text += "[2021-04-25 21:57:25 swin_tiny](main.py 221): INFO Train: [3/300][" +
            std::to_string(step) +
            "/1251]\teta 0:08:57 lr 0.000166\t time 0.60 (0.61)\tloss 6.3568 (6.1324)\n";
  }
  folder.Write("train.log", text);
  const ReadLog log = ReadAsRun(folder, "train.log");
  ASSERT_EQ(log.steps.size(), 5u) << log.error << log.notes;
  EXPECT_EQ(log.steps[0].step, 370);
  EXPECT_EQ(log.steps[4].step, 410);
  EXPECT_EQ(log.notes.find("No step number was read"), std::string::npos) << log.notes;
}

TEST(ImportTest, TrainerState) {
  TempFolder folder;
  const std::string state =
      "{\n  \"best_metric\": null,\n  \"global_step\": 30,\n  \"log_history\": [\n"
      "    {\"epoch\": 0.1, \"grad_norm\": 1.5, \"learning_rate\": 5e-05, \"loss\": 2.5, \"step\": "
      "10},\n"
      "    {\"epoch\": 0.1, \"eval_loss\": 9.0, \"step\": 10},\n"
      "    {\"epoch\": 0.2, \"grad_norm\": NaN, \"learning_rate\": 4e-05, \"loss\": NaN, \"step\": "
      "20},\n"
      "    {\"epoch\": 0.3, \"grad_norm\": Infinity, \"loss\": 0.0, \"step\": 30},\n"
      "    {\"epoch\": 0.3, \"train_loss\": 1.1, \"train_runtime\": 12.0, \"step\": 30}\n"
      "  ],\n  \"max_steps\": 30, \"stateful_callbacks\": {\"x\": {\"loss\": 77}}\n}\n";
  folder.Write("out/checkpoint-20/trainer_state.json", "{\"log_history\": []}");
  folder.Write("out/checkpoint-100/trainer_state.json", state);
  for (const std::string path :
       {"out", "out/checkpoint-100", "out/checkpoint-100/trainer_state.json"}) {
    const ReadLog log = ReadAsRun(folder, path);
    ASSERT_EQ(log.steps.size(), 3u) << log.error << log.notes;
    EXPECT_EQ(log.steps[0].loss, 2.5);
    EXPECT_EQ(log.steps[0].grad_norm, 1.5);
    EXPECT_EQ(log.steps[0].lr, 5e-05);
    EXPECT_TRUE(std::isnan(*log.steps[1].loss));
    EXPECT_EQ(log.steps[2].loss, 0.0) << "not the mean of the closing entry";
    EXPECT_NE(log.notes.find("every 10 steps"), std::string::npos) << log.notes;
  }
  folder.Write("cut.json", state.substr(0, state.find("4e-05")));
  const ReadLog cut = ReadAsRun(folder, "cut.json");
  EXPECT_EQ(cut.steps.size(), 1u) << cut.error;
  EXPECT_NE(cut.notes.find("before its end"), std::string::npos) << cut.notes;
}

TEST(ImportTest, JsonLines) {
  TempFolder folder;
  folder.Write(
      "log.json",
      "\xEF\xBB\xBF{\"mode\": \"train\", \"epoch\": 1, \"iter\": 1, \"lr\": 0.1, \"loss\": 2.5}\r\n"
      "{\"mode\": \"val\", \"epoch\": 1, \"iter\": 1, \"loss\": 9}\r\n"
      "{\"mode\": \"train\", \"epoch\": 1, \"iter\": 2, \"train\": {\"loss\": \"nan\"}}\r\n"
      "this is no JSON\r\n"
      "{\"mode\": \"train\", \"epoch\": 2, \"iter\": 1, \"loss\": 1, \"nested\": [[{\"a\": "
      "1}]]}\r\n");
  const ReadLog log = ReadAsRun(folder, "log.json");
  ASSERT_EQ(log.steps.size(), 3u) << log.error << log.notes;
  EXPECT_EQ(log.format, "JSON-lines log");
  EXPECT_EQ(log.steps[0].loss, 2.5);
  EXPECT_TRUE(std::isnan(*log.steps[1].loss));
  EXPECT_EQ(log.steps[2].loss, 1);
  EXPECT_EQ(log.steps[2].step, 3) << "the counter of the second epoch goes on";
  EXPECT_NE(log.notes.find("1 line that are no JSON"), std::string::npos) << log.notes;
}

TEST(ImportTest, TablesInEveryDress) {
  TempFolder folder;
  const std::pair<std::string, std::string> tables[] = {
      {"plain.csv", "step,loss,grad_norm\n1,2.5,1\n2,nan,inf\n"},
      {"bom.csv", "\xEF\xBB\xBFstep,loss,grad_norm\r\n1,2.5,1\r\n2,NaN,Infinity\r\n"},
      {"semicolon.csv", "step;loss;grad_norm\n1;2,5;1\n2;NAN;Inf\n"},
      {"tabs.tsv", "step\tloss\tgrad_norm\n1\t2.5\t1\n2\t-nan\t+inf\n"},
      {"quoted.csv",
       "\"Step\",\"train, loss\",\"note\",\"grad norm\"\n1,2.5,\"a \"\"b\"\", "
       "c\",1\n2,\"nan\",,1.#INF\n"},
      {"pandas.csv", ",step,loss,grad_norm\n0,1,2.5,1\n1,2,tensor(nan),inf\n"},
      {"parts.csv", "step,loss_cls,loss,val_loss,grad_norm\n1,9,2.5,8,1\n2,9,nan,8,inf\n"},
      {"lightning.csv",
       "epoch,grad_norm,step,train_loss_epoch,train_loss_step,val_loss\n0,1,1,,2.5,\n0,,1,,,8\n"
       "0,,1,9,,\n0,inf,2,,nan,\n"},
      {"wandb_export.csv",
       "\"Step\",\"sun-1 - train/loss\",\"sun-1 - train/loss__MIN\",\"sun-1 - grad_norm\"\n"
       "\"1\",\"2.5\",\"0\",\"1\"\n\"2\",\"NaN\",\"0\",\"Infinity\"\n"},
  };
  for (const auto& [name, text] : tables) {
    folder.Write(name, text);
    const ReadLog log = ReadAsRun(folder, name);
    ASSERT_EQ(log.steps.size(), 2u) << name << " " << log.error << log.notes;
    EXPECT_EQ(log.format, "table (CSV)") << name;
    EXPECT_EQ(log.steps[0].step, 1) << name;
    EXPECT_EQ(log.steps[0].loss, 2.5) << name;
    EXPECT_EQ(log.steps[0].grad_norm, 1) << name;
    EXPECT_TRUE(log.steps[1].loss && std::isnan(*log.steps[1].loss)) << name;
    EXPECT_TRUE(log.steps[1].grad_norm && std::isinf(*log.steps[1].grad_norm)) << name;
  }
  folder.Write("run-x-tag-train_loss.csv", "Wall time,Step,Value\n1.7e9,1,2.5\n1.7e9,2,nan\n");
  const ReadLog exported = ReadAsRun(folder, "run-x-tag-train_loss.csv");
  ASSERT_EQ(exported.steps.size(), 2u) << exported.error;
  EXPECT_EQ(exported.steps[0].loss, 2.5);
}

TEST(ImportTest, EveryToolTakesALog) {
  TempFolder folder;
  std::string csv = "step,loss,lr,loss_scale\n";
  for (int step = 0; step < 200; ++step) {
    csv += std::to_string(step) + (step < 150 ? ",2.0" : ",nan") + ",0.001,1024\n";
  }
  folder.Write("metrics.csv", csv);
  auto summary = Call("run_summary", {{"run", "metrics.csv"}}, folder.path());
  ASSERT_TRUE(summary) << summary.error().Text();
  EXPECT_EQ(summary->structured["steps"], 200);
  EXPECT_EQ(summary->structured["loss"]["last"], "nan");
  auto alerts = Call("query_alerts", {{"run", "metrics.csv"}}, folder.path());
  EXPECT_TRUE(alerts) << (alerts ? "" : alerts.error().Text());
  auto list = Call("list_runs", {{"path", "metrics.csv"}}, folder.path());
  ASSERT_TRUE(list) << list.error().Text();
  EXPECT_EQ(list->structured["runs"][0]["last_loss"], "nan");
  const std::string handle = list->structured["runs"][0]["run"];
  for (const Json& arguments :
       {Json{{"run", handle}}, Json{{"run", "."}}, Json{{"log_path", "metrics.csv"}}}) {
    auto diagnosis = Call("diagnose_run", arguments, folder.path());
    ASSERT_TRUE(diagnosis) << diagnosis.error().Text();
    EXPECT_EQ(diagnosis->structured["verdict"], "broken");
    EXPECT_EQ(diagnosis->structured["first_bad"]["step"], 150);
    EXPECT_NE(diagnosis->structured["next_measurement"].get<std::string>().find(
                  "MixedPrecisionNanny(model"),
              std::string::npos);
  }
}

TEST(ImportTest, WhatHasNoFiguresSaysWhatThereWas) {
  TempFolder folder;
  folder.Write("events.tfevents", Scalar("accuracy", 1, 0.5F));
  const ReadLog log = ReadAsRun(folder, "events.tfevents");
  EXPECT_NE(log.error.find("accuracy"), std::string::npos) << log.error;
  folder.Write("notes.txt", "nothing to see\nhere\n");
  EXPECT_NE(ReadAsRun(folder, "notes.txt").error.find("No loss"), std::string::npos);
  folder.Write("noise.bin", std::string("\x01\x02\x00\x03", 4));
  EXPECT_FALSE(ReadAsRun(folder, "noise.bin").error.empty());
}

// A line of figures between bars is no header, although it names what a header would.
TEST(ImportTest, FiguresBetweenBarsAreNoHeader) {
  TempFolder folder;
  std::string lines, table = "epoch|loss|AP IoU 0.50:0.95\n";
  for (int epoch = 1; epoch <= 6; ++epoch) {
    const std::string n = std::to_string(epoch);
    lines += "E  " + n + "/500 | Loss:" + n + ".5 | TrA:38.29% | ETA:218.7min\n";
    table += n + "|" + n + ".5|0.2\n";
  }
  folder.Write("bars.log", "\xef\xbb\xbf" + lines);
  folder.Write("table.log", table);
  const ReadLog bars = ReadAsRun(folder, "bars.log");
  EXPECT_EQ(bars.format, "text log") << bars.error;
  ASSERT_EQ(bars.steps.size(), 6u);
  EXPECT_EQ(bars.steps[2].loss, 3.5);
  const ReadLog read = ReadAsRun(folder, "table.log");
  EXPECT_EQ(read.format, "table (CSV)") << read.error;
  ASSERT_EQ(read.steps.size(), 6u);
  EXPECT_EQ(read.steps[2].loss, 3.5);
}

// Where an epoch has several rows each of them counts.
TEST(ImportFormatsTest, ATableWithSeveralRowsAnEpoch) {
  TempFolder folder;
  std::string table = "epoch,batch,loss\n";
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (int batch = 0; batch < 5; ++batch) {
      table += std::to_string(epoch) + "," + std::to_string(batch) + "," +
               std::to_string(3 - 0.1 * (5 * epoch + batch)) + "\n";
    }
  }
  folder.Write("metrics.csv", table);
  const ReadLog log = ReadAsRun(folder, "metrics.csv");
  ASSERT_EQ(log.steps.size(), 15u) << log.notes;
  EXPECT_EQ(log.steps[14].loss, 1.6);
}

}  // namespace
}  // namespace mpnanny::test
