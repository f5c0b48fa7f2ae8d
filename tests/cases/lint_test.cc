#include "engines/cases/lint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/text.h"
#include "engines/cases/case.h"
#include "tests/cases/page.h"

namespace mpnanny::cases {
namespace {

const std::string kGood = GoodPage("lint-me");

class Lint : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("lint_" + std::to_string(testing::UnitTest::GetInstance()->random_seed()) +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_ / "knowledge/cases");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / "knowledge/cases" / name) << text;
  }

  // Problems (no notes) of the shipped data with what was written over it.
  std::string Problems() {
    const auto data = DataFiles::Create(folder_.string());
    EXPECT_TRUE(data);
    std::string all;
    for (const Problem& problem : LintCases(*data)) {
      if (!problem.note) all += problem.file + ": " + problem.what + "\n";
    }
    return all;
  }

  std::filesystem::path folder_;
};

TEST_F(Lint, ShippedCasesAreClean) { EXPECT_EQ(Problems(), ""); }

TEST_F(Lint, AGoodCaseIsClean) {
  Write("lint-me.md", kGood);
  EXPECT_EQ(Problems(), "");
}

TEST_F(Lint, NamesEachProblem) {
  const struct {
    const char* from;
    const char* to;
    const char* says;
  } wrong[] = {
      {"id: lint-me", "id: lint-you", "its id is 'lint-you'"},
      {"title_zh: 标题", "title_zh: Title", "title_zh holds no Chinese"},
      {"symptom: A symptom", "symptom: 症状", "symptom is for English"},
      {"title: A title\n", "", "field 'title' is missing"},
      {"torch>=2.4", "torch>=2.14", "it depends on torch>=2.14, and was verified with 2.13.0"},
      {"torch>=2.4", "\"torch>=2.4,<2.14\"", "verified with 2.13.0 only"},
      {"torch>=2.4", "vllm>=0.9", "verified_with does not name vllm"},
      {"Above 65504.", "Above 65504 since PyTorch 2.14.", "its text names torch 2.14"},
      {"Above 65504.", "Above 65504 (torch 3.0).", "its text names torch 3.0"},
      {", 炸了]", "]", "at least 5 phrases"},
      {"损失变成 nan", "loss nan", "2 of them Chinese"},
      {"## Fix\nf\n", "", "in this order"},
      {"## Fix\nf", "## Fix", "section 'Fix' is empty"},
      {"65504", "the limit", "no number"},
      {"# bad: x", "x", "'# bad'"},
      {"```python\n# good: y\n```\n", "", "two ```python blocks"},
      {"https://example.org/1", "example.org", "no web link"},
      {"https://example.org/1", "https://nowhere", "no web link"},
      {"clip-before-unscale", "clip-befor-unscale", "Did you mean 'clip-before-unscale'"},
      {"clip-before-unscale", "lint-me", "related to itself"},
      {"[monitor]", "[monitor, static]", "no 'rule:' signal"},
      {"[monitor]", "[monitor, log]", "no 'log:' signal"},
      {"[monitor]", "[monitor, reproduction]", "no program"},
      {"weight: 2.5}", "weight: 2.5}\n  - {signal: \"alert:INF@loss\", weight: 1}", "stands twice"},
      {"alert:INF@loss", "alert:INFF", "'INFF'"},
  };
  for (const auto& one : wrong) {
    Write("lint-me.md", Replace(kGood, one.from, one.to));
    const std::string problems = Problems();
    EXPECT_NE(problems.find("lint-me.md: "), std::string::npos) << one.says;
    EXPECT_NE(problems.find(one.says), std::string::npos) << one.says << " in\n" << problems;
  }
}

TEST_F(Lint, ReproductionsAndCasesBelongTogether) {
  Write("lint-me.md", kGood);
  Write("lint-me.py", "def broken():\n");
  Write("nobody.py", "");
  const std::string problems = Problems();
  EXPECT_NE(problems.find("add 'reproduction'"), std::string::npos) << problems;
  EXPECT_NE(problems.find("lint-me.py: has no 'def fixed()'"), std::string::npos) << problems;
  EXPECT_NE(problems.find("nobody.py: there is no case"), std::string::npos) << problems;
}

TEST_F(Lint, BrokenFilesAreProblemsAndNoCrash) {
  Write("Not_Kebab.md", kGood);
  Write("empty.md", "");
  Write("bytes.md", std::string("---\n\xff\xfe\0\n---\n", 12));
  const std::string problems = Problems();
  EXPECT_NE(problems.find("Not_Kebab.md: the id must be kebab-case"), std::string::npos);
  EXPECT_NE(problems.find("empty.md: "), std::string::npos) << problems;
  EXPECT_NE(problems.find("bytes.md: "), std::string::npos) << problems;
}

TEST_F(Lint, TemplateIsACaseThatOnlyLacksItsContent) {
  const auto data = DataFiles::Create();
  ASSERT_TRUE(data);
  const auto text = CaseTemplate("a-new-case", *data);
  ASSERT_TRUE(text) << text.error().Text();
  Write("a-new-case.md", *text);
  const std::string problems = Problems();
  EXPECT_NE(problems.find("a-new-case.md: field 'title' is missing"), std::string::npos);
  EXPECT_EQ(problems.find("unknown"), std::string::npos) << problems;
  EXPECT_EQ(problems.find("in this order"), std::string::npos) << problems;
  EXPECT_EQ(problems.find("blocks"), std::string::npos) << problems;

  EXPECT_FALSE(CaseTemplate("Not Kebab", *data));
  EXPECT_FALSE(CaseTemplate("", *data));
  EXPECT_FALSE(CaseTemplate("clip-before-unscale", *data));
}

}  // namespace
}  // namespace mpnanny::cases
