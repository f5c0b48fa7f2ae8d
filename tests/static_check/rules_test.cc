// Every rule's page is executed: each fenced example must give exactly the findings that its marks
// name, and none where the mark is of a candidate. Also that a rule has all its parts.
#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/data_files.h"
#include "tests/static_check/examples.h"

namespace mpnanny::check {
namespace {

std::vector<std::string> RuleIds() {
  std::vector<std::string> ids;
  for (const EmbeddedFile& file : EmbeddedProductData()) {
    const std::string path(file.path);
    if (!path.starts_with("engines/check/rules/") || !path.ends_with(".md")) continue;
    const std::string id = std::filesystem::path(path).stem().string();
    if (id != "README" && !id.starts_with("_")) ids.push_back(id);
  }
  return ids;
}

class RulePageTest : public testing::TestWithParam<std::string> {
 protected:
  const RulePage& page() const {
    const RulePage* found = Rules().Find(GetParam());
    EXPECT_NE(found, nullptr) << GetParam();
    return *found;
  }
};

TEST_P(RulePageTest, ExamplesFireAsMarked) {
  for (const Example& example : ReadExamples(page().body)) {
    const Report report = CheckCode(example.code, example.path);
    EXPECT_EQ(Found(report), example.expected)
        << "the example in line " << example.line << " of the body of " << GetParam() << ":\n"
        << example.code;
    EXPECT_TRUE(report.notes.empty()) << report.notes[0] << "\n" << example.code;
  }
}

// Those of other rules may stand there unmarked.
TEST_P(RulePageTest, CandidatesAreShownAsMarked) {
  for (const Example& example : ReadExamples(page().body)) {
    std::set<std::string> ids = {GetParam()};
    for (const std::string& mark : example.candidates) ids.insert(mark.substr(mark.rfind(' ') + 1));
    std::set<std::string> shown;
    for (const std::string& id : ids) {
      Options options;
      options.rules = {id};
      const auto report = Check({{example.path, example.code}}, options, Rules(), {});
      ASSERT_TRUE(report) << report.error().Text();
      for (const Candidate& one : report->candidates)
        shown.insert(std::to_string(one.line) + " candidate " + one.rule);
    }
    EXPECT_EQ(shown, example.candidates)
        << "the example in line " << example.line << " of the body of " << GetParam() << ":\n"
        << example.code;
  }
}

TEST_P(RulePageTest, HasBothKindsOfExamples) {
  int firing = 0;
  int silent = 0;
  int limits = 0;
  for (const Example& example : ReadExamples(page().body)) {
    const auto names = [&](const std::string& mark) { return mark.ends_with(" " + GetParam()); };
    const bool own = std::any_of(example.expected.begin(), example.expected.end(), names) ||
                     std::any_of(example.candidates.begin(), example.candidates.end(), names);
    if (example.section == "Bad") {
      EXPECT_TRUE(own) << "An example under Bad in which " << GetParam() << " stays silent:\n"
                       << example.code;
      firing += own ? 1 : 0;
    } else if (example.section == "Good") {
      EXPECT_FALSE(own) << "An example under Good in which " << GetParam() << " fires:\n"
                        << example.code;
      silent += own ? 0 : 1;
    } else if (example.section == "Known limits") {
      ++limits;
    }
  }
  EXPECT_GE(firing, 2);
  EXPECT_GE(silent, 2);
  EXPECT_GE(limits, 1);
}

TEST_P(RulePageTest, HasAllHeadingsInOrder) {
  size_t at = 0;
  for (const char* heading : {"\n## What it detects\n", "\n## Why it goes wrong\n", "\n## Bad\n",
                              "\n## Good\n", "\n## Known limits\n", "\n## References\n"}) {
    const size_t found = page().body.find(heading);
    EXPECT_NE(found, std::string::npos) << "missing:" << heading;
    EXPECT_GE(found, at) << "out of order:" << heading;
    if (found != std::string::npos) at = found;
  }
  EXPECT_NE(page().body.find("https://", at), std::string::npos) << "no reference is given";
}

// A case that is not written yet has no file; one that has must be spelled as it is.
TEST_P(RulePageTest, LinksKnownCases) {
  const auto data = DataFiles::Create();
  ASSERT_TRUE(data);
  if (data->List("knowledge/cases/", ".md").empty()) GTEST_SKIP() << "no cases are embedded";
  for (const std::string& id : page().cases) {
    EXPECT_TRUE(data->Read("knowledge/cases/" + id + ".md"))
        << GetParam() << " links the unknown case " << id;
  }
}

// Applying the edits of a finding removes it, adds no other, and leaves code that parses.
TEST_P(RulePageTest, EditsRepair) {
  for (const Example& example : ReadExamples(page().body)) {
    const Report before = CheckCode(example.code, example.path);
    for (const Finding& finding : before.findings) {
      if (finding.edits.empty() || finding.rule != GetParam()) continue;
      const std::string repaired = Apply(example.code, finding);
      const Report after = CheckCode(repaired, example.path);
      EXPECT_LT(after.findings.size(), before.findings.size()) << repaired;
      EXPECT_TRUE(after.notes.empty()) << after.notes[0] << "\n" << repaired;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, RulePageTest, testing::ValuesIn(RuleIds()), [](const auto& param) {
  std::string name = param.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(Rules, AreEnough) { EXPECT_GE(RuleIds().size(), 20u); }

}  // namespace
}  // namespace mpnanny::check
