#include "engines/cases/case.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "base/text.h"
#include "engines/cases/vocabulary.h"
#include "tests/cases/page.h"

namespace mpnanny::cases {
namespace {

const std::string kGood = GoodPage("a-case");

TEST(ParseCase, ReadsEveryField) {
  const auto read = ParseCase(
      Replace(kGood, "## Fix\nf\n", "## Fix\nDo this.\n\n```python\n## Code\n```\n"), "a-case.md");
  ASSERT_TRUE(read) << read.error().Text();
  EXPECT_EQ(read->id, "a-case");
  EXPECT_EQ(read->title_zh, "标题");
  EXPECT_EQ(read->precision, std::vector<std::string>{"fp16"});
  ASSERT_EQ(read->signals.size(), 1u);
  EXPECT_EQ(read->signals[0].name, "INF");
  EXPECT_EQ(read->signals[0].weight, 2.5);
  EXPECT_EQ(read->fix, "Do this.\n\n```python\n## Code\n```");  // fenced lines are no headings
  EXPECT_EQ(Headings(read->body),
            (std::vector<std::string>{"Symptom", "Mechanism", "How to confirm", "Fix", "Code"}));
}

TEST(ParseCase, SaysWhatIsWrongAndWhatIsAllowed) {
  const struct {
    const char* from;
    const char* to;
    const char* says;
  } wrong[] = {
      {"title: A title\n", "", "'title' is missing"},
      {"title_zh: 标题\n", "title_zh:\n", "'title_zh' is missing"},
      {"kind: failure", "kind: failure\nkinds: x", "unknown field 'kinds'. Did you mean 'kind'?"},
      {"nan-inf", "naninf", "nan-inf, loss-scale-collapse"},
      {"P0", "P3", "P0, P1, P2"},
      {"[fp16]", "[fp17]", "Allowed: fp16"},
      {"[fp16]", "[]", "'precision' is empty"},
      {"[fp16]", "[fp16, fp16]", "'fp16' twice"},
      {"[fp16]", "fp16", "must be a list"},
      {"weight: 2.5", "weight: heavy", "weight"},
      {"weight: 2.5", "weigth: 2.5", "{signal:"},
      {", weight: 2.5", "", "{signal:"},
      {"alert:INF@loss", "alert:INV", "'INF'"},
      {"[https://example.org/1]", "[]", "'evidence' is empty"},
      {"related: [clip-before-unscale]", "related:", "'related' is missing"},
      {"id: a-case", "id: a-case\nid: b", "stands twice"},
      {"title: A title", "title: [A, title]", "must be a text"},
      {"2026-11-23", "November", "'verified' must be a day"},
      {"2026-11-23", "2026-11", "'verified' must be a day"},
      {"torch>=2.4", "torch", "torch>=2.9,<2.12"},
      {"torch>=2.4", "\"torch>=2.4,\"", "torch>=2.9,<2.12"},
      {"torch>=2.4", "\"torch~2.4\"", "torch>=2.9,<2.12"},
      {"torch 2.13.0", "torch", "torch 2.13.0"},
      {"[any]", "[gpu]", "Allowed: any, cpu"},
  };
  for (const auto& one : wrong) {
    const auto read = ParseCase(Replace(kGood, one.from, one.to), "a-case.md");
    ASSERT_FALSE(read) << one.to;
    EXPECT_NE(read.error().message.find("a-case.md"), std::string::npos) << read.error().message;
    EXPECT_NE(read.error().Text().find(one.says), std::string::npos) << read.error().Text();
  }
}

TEST(ParseCase, CountsFurtherProblems) {
  const auto read = ParseCase(Replace(Replace(kGood, "P0", "P9"), "nan-inf", "x"), "a.md");
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().hint.find("1 more"), std::string::npos) << read.error().hint;
  EXPECT_FALSE(ParseCase("no front matter", "a.md"));
  EXPECT_FALSE(ParseCase("", "a.md"));
}

TEST(CaseLibrary, EveryShippedCaseReads) {
  const auto data = DataFiles::Create();
  ASSERT_TRUE(data);
  const CaseLibrary library = CaseLibrary::Load(*data);
  EXPECT_TRUE(library.problems().empty()) << Join(library.problems(), "\n");
  EXPECT_EQ(library.all().size(), data->List(kCaseFolder, ".md").size());
  EXPECT_GE(library.all().size(), 30u);
  for (const Case& one : library.all()) EXPECT_EQ(library.Find(one.id), &one);
  EXPECT_EQ(library.Find("no-such-case"), nullptr);
}

TEST(CaseLibrary, LeavesABrokenCaseOutAndNamesIt) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "broken_case";
  std::filesystem::create_directories(folder / "knowledge/cases");
  std::ofstream(folder / "knowledge/cases/a-case.md") << kGood;
  std::ofstream(folder / "knowledge/cases/other-name.md") << kGood;
  std::ofstream(folder / "knowledge/cases/broken.md") << "---\nid: broken\n---\n";
  const auto data = DataFiles::Create(folder.string());
  ASSERT_TRUE(data);
  const CaseLibrary library = CaseLibrary::Load(*data);
  EXPECT_NE(library.Find("a-case"), nullptr);
  EXPECT_EQ(library.Find("broken"), nullptr);
  EXPECT_EQ(library.Find("other-name"), nullptr);
  const std::string problems = Join(library.problems(), "\n");
  EXPECT_NE(problems.find("other-name.md: its id is 'a-case'"), std::string::npos) << problems;
  EXPECT_NE(problems.find("broken.md: field 'title' is missing"), std::string::npos) << problems;
  std::filesystem::remove_all(folder);
}

// knowledge/README.md explains the vocabulary to people: word for word what the header says.
TEST(Vocabulary, ReadmeAndHeaderAreEqual) {
  const auto readme =
      ReadFile(std::string(MPNANNY_SOURCE_DIR) + "/knowledge/README.md", kMaxTextFileBytes);
  ASSERT_TRUE(readme) << readme.error().Text();
  const struct {
    const char* heading;
    std::span<const Word> words;
  } tables[] = {
      {"kind", kKinds},
      {"category", kCategories},
      {"severity", kSeverities},
      {"difficulty (to detect)", kDifficulties},
      {"precision", kPrecisions},
      {"components", kComponents},
      {"detectable_by", kDetectableBy},
      {"devices", kDevices},
      {"alert types", kAlertTypes},
      {"phases", kPhases},
      {"states of the loss scale", kScaleStates},
      {"signs", kSigns},
  };
  std::string all;
  for (const auto& table : tables) {
    all += std::string("### ") + table.heading + "\n\n| word | meaning |\n|---|---|\n";
    for (const Word& word : table.words) {
      all += "| `" + std::string(word.name) + "` | " + std::string(word.meaning) + " |\n";
    }
    all += "\n";
  }
  all.pop_back();
  const size_t start = readme->find("### kind\n");
  ASSERT_NE(start, std::string::npos);
  EXPECT_EQ(readme->substr(start), all);
}

}  // namespace
}  // namespace mpnanny::cases
