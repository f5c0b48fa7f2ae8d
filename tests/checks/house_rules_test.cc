// Rules for the tree as a whole: headers that say what they are for, READMEs where
// things are added, nothing that belongs to one machine.
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "tests/checks/tree.h"

namespace mpnanny::checks {
namespace {

bool IsCode(const std::string& path) {
  return IsCpp(path) || path.ends_with(".py") || path.ends_with(".pyi") || path.ends_with(".sh") ||
         path.ends_with(".js") || path.ends_with(".mjs") || path.starts_with("scripts/");
}

TEST(HouseRules, HeadersOpenWithTheirPurposeAndAreGuarded) {
  for (const SourceFile& file : Tree()) {
    if (!file.path.ends_with(".h") || file.path.starts_with("tests/")) continue;
    EXPECT_TRUE(file.text.starts_with("// ")) << file.path << " does not open with a comment";
    std::string guard = "MPNANNY_" + file.path + "_";
    std::transform(guard.begin(), guard.end(), guard.begin(), [](unsigned char c) {
      return std::isalnum(c) ? static_cast<char>(std::toupper(c)) : '_';
    });
    EXPECT_NE(file.text.find("#ifndef " + guard + "\n#define " + guard), std::string::npos)
        << file.path << " wants the guard " << guard;
  }
}

// What a rule says rests on resolved names, types and values (engines/check/facts): a word in the
// text of a file is no evidence.
TEST(HouseRules, NoRuleOfTheStaticCheckSearchesText) {
  const std::regex search(R"re(text_search\.h|<regex>|syntax(\(\))?\.text\(\)|\.r?find\("|)re"
                          R"re(Text\([^;{}]*\)\s*\.(r?find|starts_with|ends_with|contains)\()re");
  int files = 0;
  for (const SourceFile& file : Tree()) {
    if (!file.path.ends_with(".cc") || !(file.path.starts_with("engines/check/rules/") ||
                                         file.path.starts_with("engines/check/candidates/")))
      continue;
    ++files;
    std::smatch found;
    EXPECT_FALSE(std::regex_search(file.text, found, search))
        << file.path << " searches text: " << found.str();
  }
  EXPECT_GT(files, 30);
}

TEST(HouseRules, MainsAreSmall) {
  const SourceFile* const main = FindFile("server/main.cc");
  ASSERT_TRUE(main);
  EXPECT_LE(main->Lines().size(), 60u);
}

TEST(HouseRules, EveryPlaceThatIsAddedToSaysHow) {
  for (const char* readme :
       {"README.md", "CONTRIBUTING.md", "LICENSE", "CHANGELOG.md", "docs/architecture.md",
        "tools/README.md", "engines/check/rules/README.md", "knowledge/README.md",
        "prompts/README.md", "monitor/alerts/README.md", "tests/README.md", "bench/README.md"}) {
    const SourceFile* const file = FindFile(readme);
    EXPECT_TRUE(file && file->text.size() > 200) << readme << " is missing or says nothing";
  }
}

TEST(HouseRules, NoPathOfAMachine) {
  // Spelt in two parts: this file is in the tree as well.
  const std::vector<std::string> kPlaces = {std::string("/wo") + "rk/", std::string("/ro") + "ot/",
                                            std::string("/Use") + "rs/",
                                            std::string("C:\\Use") + "rs"};
  for (const SourceFile& file : Tree()) {
    for (const std::string& place : kPlaces) {
      size_t at = file.text.find(place);
      // The same word further down a longer path or in a URL is another thing.
      while (at != std::string::npos && at > 0 &&
             (std::isalnum(static_cast<unsigned char>(file.text[at - 1])) ||
              std::string("._-}~").find(file.text[at - 1]) != std::string::npos)) {
        at = file.text.find(place, at + 1);
      }
      EXPECT_EQ(at, std::string::npos) << file.path << " holds the path "
                                       << file.text.substr(std::min(at, file.text.size()), 40);
    }
  }
}

bool HasHeading(const SourceFile& page, const std::string& section) {
  for (const std::string& line : page.Lines()) {
    if (line.starts_with("#") && line.substr(line.find_first_not_of("# ")) == section) return true;
  }
  return false;
}

bool IsPath(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '/'; }

// `docs/shadow.md` and `knowledge/README.md, "Signals"` in code: the page exists, and so does the
// section.
TEST(HouseRules, WhatCodeCitesExists) {
  int pages = 0, sections = 0;
  for (const SourceFile& file : Tree()) {
    if (!IsCode(file.path) || file.path.starts_with("tests/")) continue;
    const std::string& text = file.text;
    for (size_t at = text.find(".md"); at != std::string::npos; at = text.find(".md", at + 1)) {
      size_t start = at;
      while (start > 0 && IsPath(text[start - 1])) --start;
      const std::string path = text.substr(start, at - start);
      if (!path.starts_with("docs/") && (!path.ends_with("/README") || path[0] == '/')) continue;
      const SourceFile* const page = FindFile(path + ".md");
      EXPECT_TRUE(page) << file.path << " cites " << path << ".md";
      ++pages;
      size_t quote = at + 3;
      if (!page || text.compare(quote, 2, ", ") != 0) continue;
      quote += text[quote + 2] == '\\' ? 3 : 2;
      if (text[quote] != '"') continue;
      const std::string section =
          text.substr(quote + 1, text.find_first_of("\\\"", quote + 1) - quote - 1);
      EXPECT_TRUE(HasHeading(*page, section))
          << file.path << " cites " << path << ".md, " << section;
      ++sections;
    }
  }
  EXPECT_GT(pages, 40);
  EXPECT_GT(sections, 3);
}

TEST(HouseRules, NothingIsLeftForLater) {
  const std::vector<std::string> kMarks = {std::string("TO") + "DO", std::string("FIX") + "ME"};
  for (const SourceFile& file : Tree()) {
    if (!IsCode(file.path)) continue;
    for (const std::string& mark : kMarks) {
      EXPECT_EQ(file.text.find(mark), std::string::npos) << file.path << " holds a " << mark;
    }
  }
}

}  // namespace
}  // namespace mpnanny::checks
