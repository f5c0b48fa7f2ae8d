// Reading framework configuration: what is recognised and where it stands, what is left out because
// it is not certain, and that no input, however broken or hostile, does more than yield less.
#include "engines/check/inputs/settings.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "engines/check/inputs/sources.h"
#include "tests/static_check/examples.h"

namespace mpnanny::check {
namespace {

std::vector<Settings> Yaml(const std::string& text, std::string* note = nullptr) {
  std::string ignored;
  return ReadDataSettings(text, false, note == nullptr ? &ignored : note);
}

std::vector<Settings> JsonText(const std::string& text, std::string* note = nullptr) {
  std::string ignored;
  return ReadDataSettings(text, true, note == nullptr ? &ignored : note);
}

// The text that the setting points at.
std::string At(const std::string& text, Bytes where) {
  return text.substr(where.begin, where.end - where.begin);
}

TEST(DataSettings, ReadsDeepSpeedWithPlaces) {
  const std::string text =
      "{\n\t\"zero_optimization\": {\"stage\": 2},\n"
      "\t\"fp16\": {\n\t\t\"enabled\": true,\n\t\t\"initial_scale_power\" : 17\n\t}\n}\n";
  const auto all = JsonText(text);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].framework, Framework::kDeepSpeed);
  EXPECT_TRUE(all[0].IsOn(Option::kFp16));
  EXPECT_EQ(all[0].Number(Option::kZeroStage), 2);
  const Setting* scale = all[0].Find(Option::kInitialScale);
  ASSERT_NE(scale, nullptr);
  EXPECT_EQ(scale->number, 131072);
  EXPECT_EQ(At(text, scale->where), "\"initial_scale_power\" : 17");
  EXPECT_EQ(At(text, scale->value), "17");
}

TEST(DataSettings, FindsConfigurationsInsideOthers) {
  const auto all = Yaml(
      "strategy:\n  - {}\n  - deepspeed: {fp16: {enabled: true}}\n"
      "other:\n  bf16: {enabled: true}\n");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_NE(all[0].IsOn(Option::kFp16), all[1].IsOn(Option::kFp16));
}

TEST(DataSettings, ReadsAccelerateLightningTrainerAndFairseq) {
  const auto accelerate = Yaml("distributed_type: NO\nmixed_precision: bf16\nuse_cpu: false\n");
  ASSERT_EQ(accelerate.size(), 1u);
  EXPECT_TRUE(accelerate[0].IsOn(Option::kBf16));
  EXPECT_TRUE(accelerate[0].IsOff(Option::kFp16));
  EXPECT_TRUE(accelerate[0].IsOff(Option::kCpu));
  for (const char* precision : {"16", "16-mixed", "'16-mixed'"}) {
    const auto all = Yaml(std::string("trainer:\n  precision: ") + precision + "\n");
    ASSERT_EQ(all.size(), 1u) << precision;
    EXPECT_TRUE(all[0].IsOn(Option::kFp16)) << precision;
  }
  for (const char* precision : {"32", "bf16-mixed", "bf16-true", "32-true", "transformer-engine"}) {
    const auto all = Yaml(std::string("trainer:\n  precision: ") + precision + "\n");
    ASSERT_EQ(all.size(), 1u) << precision;
    EXPECT_FALSE(all[0].IsOn(Option::kFp16)) << precision;
  }
  const auto fairseq = Yaml("common:\n  memory_efficient_fp16: true\n  min_loss_scale: 1e-5\n");
  ASSERT_EQ(fairseq.size(), 1u);
  EXPECT_TRUE(fairseq[0].IsOn(Option::kFp16));
  EXPECT_EQ(fairseq[0].Number(Option::kMinScale), 1e-5);
}

TEST(DataSettings, LeavesOtherFilesAlone) {
  EXPECT_TRUE(Yaml("mixed_precision: true\nmodel: {fp16: yes}\n").empty());
  EXPECT_TRUE(Yaml("fp16: true\nbf16: true\n").empty());  // of whom?
  EXPECT_TRUE(Yaml("- fp16\n- bf16\n").empty());
  EXPECT_TRUE(Yaml("fp16\n").empty());
  EXPECT_TRUE(JsonText("[1, 2, {\"fp16\": 3}]").empty());
  EXPECT_TRUE(Yaml("").empty());
}

TEST(DataSettings, AutoIsNeitherOnNorOff) {
  const auto all = JsonText(R"({"fp16": {"enabled": "auto", "loss_scale": 0}})");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_FALSE(all[0].IsOn(Option::kFp16));
  EXPECT_FALSE(all[0].IsOff(Option::kFp16));
  EXPECT_TRUE(all[0].MayBeFp16());
}

TEST(DataSettings, TakesCommentsInJson) {
  const std::string text =
      "{ // \"fp16\": {\"enabled\": false},\n /* \"bf16\":\n {} */ \"fp16\": {\"enabled\": true},\n"
      "# another\n \"url\": \"http://x/*\" }";
  const auto all = JsonText(text);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_TRUE(all[0].IsOn(Option::kFp16));
  EXPECT_EQ(At(text, all[0].Find(Option::kFp16)->where), "\"enabled\": true");
}

TEST(DataSettings, BrokenFilesGiveWhatStandsBeforeTheMistake) {
  std::string note;
  // A JSON object is read whole or not at all, as its framework does.
  auto all = JsonText("{\n\"fp16\": {\n\"enabled\": true},\n \"x\": }}\n", &note);
  EXPECT_NE(note.find("line 4"), std::string::npos) << note;
  EXPECT_TRUE(all.empty());
  all = Yaml("common:\n  fp16: true\n {{ templated }}\n", &note);
  EXPECT_FALSE(note.empty());
  ASSERT_EQ(all.size(), 1u);
  EXPECT_TRUE(all[0].IsOn(Option::kFp16));
  for (const char* text : {"{", "\"", "fp16: [", "a: b: c", "\t- x", "%YAML 9.9", "!!x", "&", "*a",
                           "? [", "--- --- ...", "{\"fp16\":", "'", "|", ">-", "@", "`", "- - - ?"})
    (void)Yaml(text, &note);
}

// The test's time limit is what a file that hangs would meet.
TEST(DataSettings, HostileFilesEnd) {
  const size_t size = 100000;
  std::string note;
  const auto repeat = [&](const std::string& part) {
    std::string text = "fp16: {enabled: true}\n";
    while (text.size() + part.size() < size) text += part;
    return text;
  };
  for (const char* part : {"[",
                           "{",
                           "- ",
                           "? ",
                           "a: ",
                           "\"",
                           "'",
                           "&a ",
                           "*a ",
                           "!",
                           "{a: ",
                           "#",
                           "|\n",
                           "\t",
                           "\r",
                           "a: {b: 1}\n",
                           "- 1\n",
                           "[1],\n",
                           "\xF0\x9F\x98\x80",
                           "---\n"}) {
    (void)Yaml(repeat(part), &note);
    (void)JsonText(repeat(part), &note);
    (void)ReadShellSettings(repeat(part));
  }
  // Nine levels of nine aliases each: 387 million values, were they written out.
  std::string bomb = "a: &a {fp16: {enabled: true}}\n";
  for (char c = 'b'; c <= 'j'; ++c) {
    const std::string name(1, c);
    bomb += name + ": &" + name + " [";
    for (int i = 0; i < 9; ++i)
      bomb += std::string(i == 0 ? "*" : ", *") + static_cast<char>(c - 1);
    bomb += "]\n";
  }
  const auto all = Yaml(bomb, &note);
  EXPECT_TRUE(note.empty()) << note;
  EXPECT_EQ(all.size(), 1u);
}

TEST(DataSettings, PlacesHoldWithCrLfAndCharactersOfAllLengths) {
  const std::string text =
      "# caf\xC3\xA9 \xE6\xBA\xA2\xE5\x87\xBA\r\ncommon:\r\n  fp16: true\r\n"
      "  min_loss_scale: 0   # zero\r\n";
  const auto all = Yaml(text);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(At(text, all[0].Find(Option::kMinScale)->where), "min_loss_scale: 0");
}

TEST(ShellSettings, FollowsVariablesThatAreCertain) {
  const std::string text =
      "MODEL=\"--num-layers 2 \\\n  --num-attention-heads 4\"\n"
      "ARGS=(--fp16 # comment\n  --loss-scale 64)\n"
      "ARGS+=( --train-iters 10 )\n"
      "SCALE=2\n"
      "CUDA_VISIBLE_DEVICES=0 python train.py $MODEL ${ARGS[@]} --min-loss-scale $SCALE \\\n  "
      "--x\n";
  const auto all = ReadShellSettings(text);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].framework, Framework::kMegatron);
  EXPECT_TRUE(all[0].IsOn(Option::kFp16));
  EXPECT_EQ(all[0].Number(Option::kLossScale), 64);
  EXPECT_EQ(At(text, all[0].Find(Option::kLossScale)->where), "--loss-scale 64");
  EXPECT_EQ(all[0].Number(Option::kRunSteps), 10);
  EXPECT_EQ(all[0].Number(Option::kMinScale), 2);
}

TEST(ShellSettings, LeavesOutWhatABranchDecides) {
  const char* scripts[] = {
      "A=\"\"\nif [ $X ]; then\n  A=\"--fp16\"\nfi\npython a.py --train-iters 5 $A\n",
      "[ $X ] && A=--fp16\npython a.py --train-iters 5 $A\n",
      "for x in 1; do A=--fp16; done\npython a.py --train-iters 5 $A\n",
      "f() {\n  A=--fp16\n}\npython a.py --train-iters 5 $A\n",
      "case $X in\n  y) A=--fp16 ;;\nesac\npython a.py --train-iters 5 $A\n",
      "A=$(echo --fp16)\npython a.py --train-iters 5 $A\n",
      "python a.py --train-iters 5 $B # --fp16\n",
      "python a.py --train-iters 5 '$A --fp16'\n",
  };
  for (const char* script : scripts) {
    for (const Settings& one : ReadShellSettings(script)) {
      EXPECT_FALSE(one.IsOn(Option::kFp16)) << script;
    }
  }
}

TEST(ShellSettings, TheLastAssignmentHolds) {
  const auto all = ReadShellSettings(
      "A=--fp16\nA=--bf16\npython a.py --train-iters 5 $A\nA=--fp16\n"
      "python a.py --train-iters 5 $A\n");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_TRUE(all[0].IsOn(Option::kBf16));
  EXPECT_TRUE(all[1].IsOn(Option::kFp16));
}

TEST(ShellSettings, ReadsConfigurationsThatTheScriptWrites) {
  const std::string text =
      "cat <<EOT > $CONFIG\n{\n  \"train_batch_size\": $BATCH,\n"
      "  \"zero_optimization\": {\"stage\": $ZERO},\n"
      "  \"fp16\": {\"enabled\": true, \"loss_scale\": 500}\n}\nEOT\ndeepspeed train.py\n";
  const auto all = ReadShellSettings(text);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].framework, Framework::kDeepSpeed);
  EXPECT_EQ(all[0].Number(Option::kZeroStage), std::nullopt);
  EXPECT_EQ(At(text, all[0].Find(Option::kLossScale)->where), "\"loss_scale\": 500");
}

TEST(ShellSettings, AFlagAndTheWordAfterIt) {
  const auto all =
      ReadShellSettings("fairseq-train --fp16 data-bin --max-update=100 --fp16-init-scale\n");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_TRUE(all[0].IsOn(Option::kFp16));
  EXPECT_EQ(all[0].Number(Option::kRunSteps), 100);
  EXPECT_EQ(all[0].Number(Option::kInitialScale), std::nullopt);
  const auto off = ReadShellSettings("python run.py --num_train_epochs 1 --fp16 False --bf16 $B\n");
  ASSERT_EQ(off.size(), 1u);
  EXPECT_TRUE(off[0].IsOff(Option::kFp16));
  EXPECT_FALSE(off[0].IsOn(Option::kBf16));
  EXPECT_FALSE(off[0].IsOff(Option::kBf16));
}

TEST(SettingsInCheck, FindingsHavePlacesAndCommentsSilenceThem) {
  const std::string yaml =
      "\xEF\xBB\xBF"
      "common:\r\n  fp16: true\r\n  min_loss_scale: 0\r\n  fp16_scale_window: 1"
      "  # mpnanny: ignore[loss-scale-window-too-short]\r\n";
  const Report report = CheckCode(yaml, "train.yaml");
  EXPECT_TRUE(report.findings.empty());
  EXPECT_EQ(report.files_scanned, 1);
  ASSERT_EQ(report.candidates.size(), 1u);
  EXPECT_EQ(report.candidates[0].rule, "min-loss-scale-too-low");
  EXPECT_EQ(report.candidates[0].line, 3);
  EXPECT_EQ(report.candidates[0].code, "min_loss_scale: 0");
  const Report both = CheckCode("common:\n  fp16: true\nbf16: {enabled: true}\n", "both.yaml");
  const Report shell =
      CheckCode("python a.py --train-iters 5 --fp16 --loss-scale 1 # mpnanny: ignore\n", "run.sh");
  EXPECT_TRUE(shell.candidates.empty());
}

TEST(SettingsInCheck, OtherFilesAreSkippedInSilence) {
  for (const char* path : {"a.json", "a.yaml", "a.sh"}) {
    const Report report = CheckCode("name: demo\n", path);
    EXPECT_EQ(report.files_scanned, 0) << path;
    EXPECT_EQ(report.files_skipped, 1) << path;
    EXPECT_TRUE(report.notes.empty()) << path;
  }
  const Report broken = CheckCode("{\"fp16\": {\"enabled\": true,, }", "a.json");
  EXPECT_EQ(broken.notes.size(), 1u);
  const Report huge = CheckCode("# fp16" + std::string(kMaxSettingsBytes, ' '), "a.yaml");
  EXPECT_EQ(huge.notes.size(), 1u);
  const Report binary = CheckCode(std::string("fp16: \0", 7), "a.yaml");
  EXPECT_EQ(binary.notes.size(), 1u);
}

TEST(SettingsInCheck, AFolderGivesOnlyFilesThatMayHoldSettings) {
  const std::string folder = testing::TempDir() + "/mpnanny_settings";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder + "/" + name, std::ios::binary) << text;
  };
  write("ds.json", "{\"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}}");
  write("package.json", "{\"name\": \"x\"}");
  write("vocab.json", "\"fp16\"" + std::string(kMaxSettingsBytes, ' '));
  write("run.sh", "echo hello\n");
  write("train.sh", "python a.py --train-iters 5 --fp16 --loss-scale 1\n");
  write("notes.txt", "fp16\n");
  const auto roots = AllowedRoots::Create({folder});
  ASSERT_TRUE(roots);
  const auto collected = CollectSources({folder}, *roots, {});
  ASSERT_TRUE(collected) << collected.error().Text();
  std::vector<std::string> names;
  for (const Source& source : collected->sources)
    names.push_back(source.path.substr(source.path.rfind('/') + 1));
  EXPECT_EQ(names, (std::vector<std::string>{"ds.json", "train.sh"}));
  EXPECT_TRUE(collected->notes.empty());
}

}  // namespace
}  // namespace mpnanny::check
