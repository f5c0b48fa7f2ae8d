// The tool as clients see it: sizes, paging, paths, formats, the rules' pages.
#include "tools/tool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "engines/check/report/report_text.h"
#include "engines/json_schema.h"
#include "tests/static_check/examples.h"
#include "tools/call.h"

namespace mpnanny::check {
Tool MakeTool();
ResourceTemplate MakeResourceTemplate();
namespace {

std::string BadFunction(int number) {
  const std::string n = std::to_string(number);
  return "def train" + n +
         "(model, loss, optimizer):\n    scaler = torch.amp.GradScaler('cuda')\n" +
         "    scaler.scale(loss).backward()\n    "
         "torch.nn.utils.clip_grad_norm_(model.parameters(), " +
         n + ".0)\n    scaler.step(optimizer)\n    scaler.update()\n";
}

class ToolTest : public testing::Test {
 protected:
  ToolTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("mpnanny-static-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~ToolTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }

  Result<ToolOutput> Call(Json arguments, size_t bytes = kAnswerBytes) const {
    const ToolContext context{roots_, data_, {}, false, bytes, nullptr};
    auto output = CallTool(tool_, std::move(arguments), context);
    if (output) {
      const auto valid =
          ValidateAgainstSchema(tool_.definition.output_schema, output->structured, "result");
      EXPECT_TRUE(valid) << valid.error().Text();
    }
    return output;
  }

  const std::filesystem::path folder_;
  const AllowedRoots roots_ =
      *AllowedRoots::Create({std::filesystem::temp_directory_path().string()});
  const DataFiles data_ = *DataFiles::Create();
  const Tool tool_ = MakeTool();
};

TEST_F(ToolTest, ProvingIsRefusedWhereNoCodeMayRunAndWhereThereIsNoFile) {
  const std::string path = Write("train.py", BadFunction(1));
  const auto refused = Call({{"paths", {path}}, {"prove", true}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnavailable);
  EXPECT_NE(refused.error().Text().find("--allow-exec"), std::string::npos);
  const auto nowhere = Call({{"code", BadFunction(1)}, {"prove", true}});
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().kind, ErrorKind::kInvalidInput);
  EXPECT_NE(nowhere.error().Text().find("`paths`"), std::string::npos);
  const auto map = Call({{"paths", {path}}, {"prove", true}, {"detail", "map"}});
  EXPECT_FALSE(map);
}

TEST_F(ToolTest, PagesTellEveryFindingOnce) {
  std::string code = "import torch\n";
  for (int i = 1; i <= 60; ++i) code += BadFunction(i);
  std::set<int> lines;
  Json arguments = {{"code", code}};
  int pages = 0;
  while (true) {
    const auto output = Call(arguments);
    ASSERT_TRUE(output) << output.error().Text();
    ++pages;
    EXPECT_LE(output->text.size(), kAnswerBytes);
    EXPECT_LE(DumpJson(output->structured).size(), kAnswerBytes);
    EXPECT_EQ(output->structured["total"], 60);
    for (const Json& finding : output->structured["findings"]) {
      EXPECT_TRUE(lines.insert(finding["line"].get<int>()).second);
    }
    if (!output->structured.contains("next_cursor")) break;
    EXPECT_NE(output->text.find(output->structured["next_cursor"].get<std::string>()),
              std::string::npos);
    arguments["cursor"] = output->structured["next_cursor"];
  }
  EXPECT_EQ(lines.size(), 60u);
  EXPECT_GT(pages, 1);
  const auto whole = Call({{"code", code}}, SIZE_MAX);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->structured["findings"].size(), 60u);
  EXPECT_FALSE(whole->structured.contains("next_cursor"));
}

TEST_F(ToolTest, ReportsProgressToWhoWantsIt) {
  std::vector<double> told;
  ToolContext context{roots_, data_, {}, false, kAnswerBytes, nullptr};
  context.progress = [&](double progress, std::optional<double> total, const std::string&) {
    ASSERT_TRUE(total);
    EXPECT_LE(progress, *total);
    told.push_back(progress);
  };
  ASSERT_TRUE(CallTool(tool_, {{"code", BadFunction(1)}}, context));
  EXPECT_FALSE(told.empty());
}

// All files are read before the first is checked: half-way this must not say that nothing was done.
TEST_F(ToolTest, ProgressTellsOfFilesThatAreReadAsWellAsOfThoseThatAreChecked) {
  std::vector<std::string> told;
  Json files = Json::array();
  // Large enough that some progress is reported: it comes ten times a second at most.
  std::string code = "import torch\n";
  for (int i = 0; i < 500; ++i) code += BadFunction(i);
  for (int i = 0; i < 60; ++i)
    files.push_back({{"path", "f" + std::to_string(i) + ".py"}, {"text", code}});
  ToolContext context{roots_, data_, {}, false, kAnswerBytes, nullptr};
  context.progress = [&](double progress, std::optional<double> total, const std::string& message) {
    ASSERT_EQ(*total, 120);
    told.push_back(message);
    int read = 0, of = 0, checked = 0;
    ASSERT_EQ(std::sscanf(message.c_str(), "%d of %d files read, %d checked", &read, &of, &checked),
              3)
        << message;
    EXPECT_EQ(of, 60);
    EXPECT_EQ(read + checked, progress) << message;
    EXPECT_LE(checked, read) << message;
  };
  ASSERT_TRUE(CallTool(tool_, {{"files", files}}, context));
  EXPECT_GT(told.size(), 1u);
}

TEST(ReportText, AnUnfinishedCheckDrawsNoConclusion) {
  Report report;
  for (const int scanned : {0, 3}) {
    report.files_scanned = scanned;
    const ToolOutput early = ShowUnfinished(report, kAnswerBytes);
    EXPECT_NE(early.text.find("Not done yet"), std::string::npos) << early.text;
    EXPECT_EQ(early.text.find("No file was checked"), std::string::npos) << early.text;
    EXPECT_EQ(early.text.find("Nothing found"), std::string::npos) << early.text;
    const std::string at_the_end = ShowReport(report, 0, false, kAnswerBytes).text;
    EXPECT_NE(at_the_end.find(scanned ? "Nothing found" : "No file was checked"), std::string::npos)
        << at_the_end;
  }
  Finding finding;
  finding.rule = "some-rule";
  finding.path = "a.py";
  report.findings.assign(500, finding);
  const ToolOutput early = ShowUnfinished(report, kAnswerBytes);
  EXPECT_FALSE(early.structured.contains("next_cursor")) << "a cursor belongs to a finished list";
  EXPECT_EQ(early.structured["total"], 500);
  EXPECT_NE(early.text.find("the answer at the end has them"), std::string::npos);
}

TEST_F(ToolTest, WrongArgumentsSayWhatToDo) {
  for (const Json& arguments :
       {Json::object(), Json{{"code", "x"}, {"paths", {"y"}}}, Json{{"paths", Json::array()}},
        Json{{"code", "import torch"}, {"cursor", "nonsense"}},
        Json{{"code", "import torch"}, {"cursor", "f9"}},
        Json{{"code", "import torch"}, {"rules", {"clip-before"}}},
        Json{{"paths", {"/etc/passwd"}}}, Json{{"paths", {(folder_ / "missing.py").string()}}}}) {
    const auto output = Call(arguments);
    ASSERT_FALSE(output) << DumpJson(arguments);
    EXPECT_FALSE(output.error().message.empty());
    EXPECT_NE(output.error().kind, ErrorKind::kInternal) << output.error().Text();
  }
}

TEST_F(ToolTest, FoldersAreSearchedAndNamedPathsAlwaysRead) {
  const std::string bad = "import torch\n" + BadFunction(1);
  for (const char* name :
       {"p/train.py", "p/tests/test_a.py", "p/docs/x.py", "p/.hidden/x.py", "p/build/x.py",
        "p/venv/x.py", "p/ignored/x.py", "p/sub/deep.py", "p/notes.txt"}) {
    Write(name, bad);
  }
  Write("p/.gitignore", "# comment\nignored/\n*.pyc\n");
  auto output = Call({{"paths", {(folder_ / "p").string()}}});
  ASSERT_TRUE(output) << output.error().Text();
  EXPECT_EQ(output->structured["findings"].size(), 2u) << output->text;
  for (const char* name : {"p/tests", "p/docs/x.py", "p/notes.txt", "p/ignored"}) {
    output = Call({{"paths", {(folder_ / name).string()}}});
    ASSERT_TRUE(output) << output.error().Text();
    EXPECT_EQ(output->structured["findings"].size(), 1u) << name;
  }
}

TEST_F(ToolTest, TextFromFilesCannotForgeLines) {
  const auto output =
      Call({{"files", {{{"path", "a\nb.py"}, {"text", "import torch\n" + BadFunction(1)}}}}});
  ASSERT_TRUE(output);
  EXPECT_EQ(output->text.find("a\nb.py"), std::string::npos);
  EXPECT_EQ(output->structured["findings"].size(), 1u);
}

TEST_F(ToolTest, ExitCodeFollowsFailOn) {
  const auto output = Call({{"code", "import torch\ntorch.autocast('cuda')\n"}});
  ASSERT_TRUE(output);
  ASSERT_EQ(output->structured["findings"].size(), 1u);
  const auto& exit_code = tool_.definition.command.exit_code;
  EXPECT_EQ(exit_code(output->structured, Json::object()), 1);
  EXPECT_EQ(exit_code(output->structured, {{"fail_on", "info"}}), 1);
  EXPECT_EQ(exit_code(output->structured, {{"fail_on", "error"}}), 0);
}

TEST_F(ToolTest, SarifHasWhatTheStandardRequires) {
  const auto output = Call({{"code", "import torch\n" + BadFunction(1)}}, SIZE_MAX);
  ASSERT_TRUE(output);
  const auto sarif =
      ParseJson(tool_.definition.command.formats.at("sarif")(output->structured, {data_}));
  ASSERT_TRUE(sarif);
  EXPECT_EQ((*sarif)["version"], "2.1.0");
  const Json& run = (*sarif)["runs"][0];
  EXPECT_EQ(run["tool"]["driver"]["name"], "mpnanny");
  const Json& result = run["results"][0];
  EXPECT_EQ(result["level"], "error");
  EXPECT_EQ(run["tool"]["driver"]["rules"][result["ruleIndex"].get<size_t>()]["id"],
            result["ruleId"]);
  const Json& place = result["locations"][0]["physicalLocation"];
  EXPECT_EQ(place["region"]["startLine"], output->structured["findings"][0]["line"]);
  EXPECT_TRUE(place["artifactLocation"]["uri"].is_string());
  EXPECT_EQ(result["fixes"][0]["artifactChanges"][0]["replacements"][0]["insertedContent"]["text"],
            output->structured["findings"][0]["edits"][0]["text"]);
}

TEST_F(ToolTest, RulesAreResources) {
  const ResourceTemplate family = MakeResourceTemplate();
  const ToolContext context{roots_, data_, {}, false, kAnswerBytes, nullptr};
  const auto entries = family.list(context);
  EXPECT_EQ(entries.size(), Rules().pages().size());
  for (const auto& entry : entries) EXPECT_TRUE(family.read(entry.value, context));
  const auto missing = family.read("clip-before-unscal", context);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().Text().find("clip-before-unscale"), std::string::npos);
}

}  // namespace
}  // namespace mpnanny::check
