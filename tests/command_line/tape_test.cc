// `mpnanny tape`: what was found on tapes, as text and as JSON; names of the file are data.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "server/command_line/command_line.h"

namespace mpnanny {
namespace {

class TapeTest : public testing::Test {
 protected:
  ~TapeTest() override {
    for (const std::string& each : files_) std::filesystem::remove(each);
  }
  // Writes a tape; returns its path.
  std::string Write(const std::string& name, const std::string& text) {
    files_.push_back(testing::TempDir() + "mpnanny_tape_" + name);
    std::ofstream(files_.back(), std::ios::binary) << text;
    return files_.back();
  }
  int Type(const std::vector<std::string>& words) {
    std::istringstream in;
    std::ostringstream out, err;
    const CommandLineContext context{
        .tools = [] { return std::vector<Tool>{}; },
        .resource_templates = [] { return std::vector<ResourceTemplate>{}; },
        .in = in,
        .out = out,
        .err = err};
    const int code = RunCommandLine(words, context);
    out_ = out.str();
    err_ = err.str();
    return code;
  }

  std::string out_, err_;
  std::vector<std::string> files_;
};

const std::string kLost =
    "place op=aten.add_.Tensor phase=optimizer file=\"train\\x1b[31m.py\" line=30\n"
    "call number=1 place=0 ; memory=1 type=bfloat16\n"
    "result call=1 memory=1 type=bfloat16\n"
    "change call=1 made=1 memory=1 type=bfloat16 shape=4 name=w seen=0 numel=4 moved=4 lost=4 "
    "change=1 lost_change=1 squared_change=0.25 squared_error=0.25\n"
    "lost_line seen=0 name=w magnitude=1 mean=1 held_sum=1000\n";

TEST_F(TapeTest, TapesOfOneRunAreJudgedOneAfterTheOther) {
  std::vector<std::string> words = {"tape"};
  for (const int step : {3, 5, 8}) {
    const std::string name = std::to_string(step);
    words.push_back(Write(name, "mpnanny tape 1 step=" + name + "\n" + kLost));
  }
  ASSERT_EQ(Type(words), 0) << err_;
  EXPECT_NE(out_.find("== " + words[3] + "\nStep 8, 5 rows, 1 place.\n"), std::string::npos);
  EXPECT_NE(
      out_.find("WARNING lost_change, aten.add_.Tensor at train\\u{1b}[31m.py:30 (optimizer)"),
      std::string::npos)
      << out_;
  EXPECT_NE(out_.find("lost in the newest 3 steps of 3, since step 3\n"), std::string::npos);

  words.insert(words.end(), {"--rows", "--format", "json"});
  ASSERT_EQ(Type(words), 0) << err_;
  const auto json = ParseJson(out_);
  ASSERT_TRUE(json) << out_;
  const Json& tapes = (*json)["tapes"];
  ASSERT_EQ(tapes.size(), 3u);
  EXPECT_EQ(tapes[0]["findings"].size(), 0u);
  ASSERT_EQ(tapes[2]["findings"].size(), 1u);
  const Json& finding = tapes[2]["findings"][0];
  EXPECT_EQ(finding["kind"], "lost_change");
  EXPECT_EQ(finding["place"]["operator"], "aten.add_.Tensor");
  EXPECT_EQ(finding["reach"], Json::parse(R"([{"what": "state", "name": "w", "error": 1.0}])"));
  EXPECT_EQ(tapes[2]["step"], 8);
  EXPECT_EQ(tapes[2]["results"][0]["verdict"], "not_compared");
}

TEST_F(TapeTest, RowsAreShownOnRequest) {
  const std::string file = Write("rows", "mpnanny tape 1\n" + kLost);
  ASSERT_EQ(Type({"tape", file}), 0) << err_;
  EXPECT_EQ(out_, "Step 0, 5 rows, 1 place.\n1 result: 1 not_compared.\nNothing was found.\n");
  ASSERT_EQ(Type({"tape", file, "--rows"}), 0) << err_;
  EXPECT_NE(out_.find("\n2  result call=1 memory=1 type=bfloat16\n"), std::string::npos) << out_;
  EXPECT_NE(out_.find("not_compared: there are no figures to judge it by\n"), std::string::npos);
}

TEST_F(TapeTest, WhatIsWrongWithAFileIsSaid) {
  const std::string damaged = Write("damaged", "mpnanny tape 1\nresult call=3\n");
  EXPECT_EQ(Type({"tape", damaged}), 2);
  EXPECT_NE(err_.find(damaged + ": Line 2: This result row refers to what is not there: there is "
                                "no call 3 before it. The file is damaged: record it again."),
            std::string::npos)
      << err_;
  EXPECT_EQ(Type({"tape", damaged + ".gone"}), 2);
  EXPECT_NE(err_.find(damaged + ".gone"), std::string::npos) << err_;
  EXPECT_EQ(Type({"tape", damaged, "--format", "md"}), 2);
  EXPECT_NE(err_.find("--format must be text or json, not 'md'."), std::string::npos) << err_;
  EXPECT_EQ(Type({"tape"}), 2);
}

}  // namespace
}  // namespace mpnanny
