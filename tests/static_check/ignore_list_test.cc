// .gitignore patterns: the documented cases by hand, and a generated corpus judged by git itself.
#include "engines/check/inputs/ignore_list.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/child_process.h"

namespace mpnanny::check {
namespace {

namespace fs = std::filesystem;

TEST(IgnoreList, MeansWhatGitDocuments) {
  const IgnoreList list(
      "# comment\n\n*.log\n!keep.log\n/top\nfolder/\na/**/z\n**/any\ndeep/**\n\\#file\n\\!file\n"
      "[ab]x\nspace\\ \ntrim   \r\n");
  EXPECT_EQ(list.Match("x.log", false), true);
  EXPECT_EQ(list.Match("d/x.log", false), true);
  EXPECT_EQ(list.Match("d/keep.log", false), false);
  EXPECT_EQ(list.Match("top", false), true);
  EXPECT_EQ(list.Match("d/top", false), std::nullopt);
  EXPECT_EQ(list.Match("folder", false), std::nullopt);
  EXPECT_EQ(list.Match("d/folder", true), true);
  EXPECT_EQ(list.Match("a/z", false), true);
  EXPECT_EQ(list.Match("a/b/c/z", false), true);
  EXPECT_EQ(list.Match("b/a/z", false), std::nullopt);
  EXPECT_EQ(list.Match("q/r/any", true), true);
  EXPECT_EQ(list.Match("deep", true), std::nullopt);
  EXPECT_EQ(list.Match("deep/a/b", false), true);
  EXPECT_EQ(list.Match("#file", false), true);
  EXPECT_EQ(list.Match("!file", false), true);
  EXPECT_EQ(list.Match("ax", false), true);
  EXPECT_EQ(list.Match("cx", false), std::nullopt);
  EXPECT_EQ(list.Match("space ", false), true);
  EXPECT_EQ(list.Match("trim", false), true);
  EXPECT_TRUE(list.Excludes("d/folder/x/y.py"));
  EXPECT_FALSE(list.Excludes("folders/x.py"));
}

TEST(IgnoreList, NoPatternIsSlow) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "*a";
  EXPECT_FALSE(MatchesPattern(pattern + "b", std::string(4000, 'a'), true));
  pattern.clear();
  for (int i = 0; i < 200; ++i) pattern += "**/";
  std::string path;
  for (int i = 0; i < 500; ++i) path += "a/";
  EXPECT_FALSE(MatchesPattern(pattern + "b", path + "c", true));
}

// Runs git in `folder`; what it says must be understood, so a missing git fails the test.
std::string Git(const fs::path& folder, std::vector<std::string> words) {
  words.insert(words.begin(), {"git", "-C", folder.string()});
  const auto output = RunProgram(words, std::chrono::seconds(60));
  EXPECT_TRUE(output) << "git is needed by this test: " << output.error().Text();
  return output ? output->out : "";
}

// Random patterns over a small alphabet meet random trees over the same one.
TEST(IgnoreList, AgreesWithGit) {
  const fs::path root = fs::temp_directory_path() / ("mpnanny-ignore-" + std::to_string(getpid()));
  fs::create_directories(root);
  Git(root, {"init", "-q"});
  std::mt19937 random(20);  // the same corpus in every run
  const auto pick = [&](size_t below) { return static_cast<size_t>(random() % below); };
  // Not "b**" before a slash: git until 2.40 read it as "**", against its documentation.
  const std::vector<std::string> parts = {"a",    "b",      "ab",          "a.py", "*",     "**",
                                          "?",    "a*",     "*.py",        "[ab]", "[!a]",  "[a-c]",
                                          "\\a",  "a b",    "[[:alpha:]]", "***",  "b**b",  "[a",
                                          "[]a]", "[^b]*",  "*b*",         "a?",   "**b",   "#",
                                          "a\\",  "[a\\]]", "[[:nope:]]",  "[b-]", "[--a]", "é*"};
  const std::vector<std::string> names = {"a", "b", "ab", "a.py", "b.py", "a b", "abc", "]", "é"};
  std::vector<std::string> files;
  for (int i = 0; i < 400; ++i) {
    std::string path;
    for (size_t depth = pick(4); depth > 0; --depth) path += names[pick(4)] + ".d/";
    path += names[pick(names.size())];
    files.push_back(path);
  }
  std::set<std::string> unique(files.begin(), files.end());
  for (const std::string& file : unique) {
    fs::create_directories((root / file).parent_path());
    if (!fs::is_directory(root / file)) std::ofstream(root / file) << "x";
  }
  int excluded = 0;
  int taken_back = 0;
  for (int round = 0; round < 60; ++round) {
    std::string text;
    for (size_t lines = 1 + pick(5); lines > 0; --lines) {
      if (pick(4) == 0) text += "!";
      if (pick(4) == 0) text += "/";
      for (size_t depth = 1 + pick(3); depth > 0; --depth) {
        text += parts[pick(parts.size())];
        if (pick(3) == 0) text += ".d";
        if (depth > 1) text += "/";
      }
      if (pick(4) == 0) text += "/";
      if (pick(6) == 0) text += " ";
      text += pick(6) == 0 ? "\r\n" : "\n";
    }
    std::ofstream(root / ".gitignore", std::ios::binary) << text;
    const IgnoreList list(text);
    std::vector<std::string> words = {"-c", "core.quotepath=off", "check-ignore", "--no-index",
                                      "--"};
    words.insert(words.end(), unique.begin(), unique.end());
    std::set<std::string> by_git;
    const std::string out = Git(root, words);
    for (size_t begin = 0; begin < out.size();) {
      const size_t end = out.find('\n', begin);
      by_git.insert(out.substr(begin, end - begin));
      begin = end + 1;
    }
    for (const std::string& file : unique) {
      EXPECT_EQ(list.Excludes(file), by_git.contains(file)) << file << " by\n" << text;
      excluded += by_git.contains(file) ? 1 : 0;
      taken_back += list.Match(file, false) == false ? 1 : 0;
    }
  }
  EXPECT_GT(excluded, 1000) << "the corpus excludes too little to mean anything";
  EXPECT_GT(taken_back, 100);
  fs::remove_all(root);
}

}  // namespace
}  // namespace mpnanny::check
