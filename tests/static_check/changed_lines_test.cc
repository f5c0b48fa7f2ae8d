// Findings on changed lines only: what git says in every state that a file can be in.
#include "engines/check/inputs/changed_lines.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/child_process.h"
#include "engines/check/inputs/git_diff.h"
#include "engines/check/inputs/sources.h"

namespace mpnanny::check {
namespace {

namespace fs = std::filesystem;

class ChangedLinesTest : public testing::Test {
 protected:
  ChangedLinesTest()
      : folder_(fs::canonical(fs::temp_directory_path()) /
                ("mpnanny-diff-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    Git({"init", "-q"});
    Git({"config", "user.email", "someone@example.org"});
    Git({"config", "user.name", "Someone"});
  }
  ~ChangedLinesTest() override { fs::remove_all(folder_); }

  void Git(std::vector<std::string> words) const {
    words.insert(words.begin(), {"git", "-C", folder_.string()});
    const auto output = RunProgram(words, std::chrono::seconds(60));
    ASSERT_TRUE(output) << "git is needed by this test: " << output.error().Text();
    ASSERT_EQ(output->exit_code, 0) << output->err;
  }
  void Commit() const {
    Git({"add", "-A"});
    Git({"commit", "-q", "-m", "x"});
  }
  void Write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  Result<ChangedLines> Since(const std::string& revision, const std::string& path = ".",
                             const AllowedRoots& roots = AllowedRoots::Unrestricted()) const {
    const auto collected = CollectSources({(folder_ / path).string()}, roots, {});
    EXPECT_TRUE(collected) << collected.error().Text();
    return ChangedLines::Since(revision, collected->sources, roots);
  }
  // Lines of 1 to `last` that are told to have changed, as "134".
  std::string Lines(const ChangedLines& changed, const std::string& name, int last,
                    const std::string& below = ".") const {
    std::string lines;
    for (int line = 1; line <= last; ++line) {
      if (changed.Touches((folder_ / below).string() + "/" + name, line, line))
        lines += std::to_string(line);
    }
    return lines;
  }

  const fs::path folder_;
};

TEST_F(ChangedLinesTest, EveryStateOfAFile) {
  Write("same.py", "1\n2\n3\n");
  Write("edited.py", "1\n2\n3\n4\n5\n");
  Write("old name.py", "a\nb\nc\nd\ne\nf\ng\nh\n");
  Write("gone.py", "gone\n");
  Write("crlf.py", "1\r\n2\r\n3\r\n");
  Write("d\xC3\xA9j\xC3\xA0 \"vu\".py", "1\n2\n");
  Write("sub/deep.py", "1\n2\n");
  Commit();
  Write("edited.py", "0\n1\ntwo\n3\n5\n++ b/x\n@@ -1 +1 @@\n");  // 4 is gone: no line of ours
  fs::rename(folder_ / "old name.py", folder_ / "new\tname.py");
  Write("new\tname.py", "a\nb\nc\nd\ne\nf\ng\nH\n");
  fs::remove(folder_ / "gone.py");
  Write("crlf.py", "1\r\n2\r\n3\r\n4\r\n");
  Write("d\xC3\xA9j\xC3\xA0 \"vu\".py", "1\nzwei\n");
  Write("staged.py", "1\n2\n");
  Git({"add", "-A"});
  Write("untracked.py", "1\n2\n");
  Write("sub/deep.py", "1\nzwei\n");
  const auto changed = Since("HEAD");
  ASSERT_TRUE(changed) << changed.error().Text();
  EXPECT_EQ(Lines(*changed, "same.py", 3), "");
  EXPECT_EQ(Lines(*changed, "edited.py", 7), "1367");
  EXPECT_EQ(Lines(*changed, "new\tname.py", 8), "8");
  EXPECT_EQ(Lines(*changed, "crlf.py", 4), "4");
  EXPECT_EQ(Lines(*changed, "d\xC3\xA9j\xC3\xA0 \"vu\".py", 2), "2");
  EXPECT_EQ(Lines(*changed, "staged.py", 2), "12");
  EXPECT_EQ(Lines(*changed, "untracked.py", 2), "12");
  EXPECT_EQ(Lines(*changed, "sub/deep.py", 2), "2");
  EXPECT_TRUE(changed->Touches((folder_ / ".").string() + "/edited.py", 4, 6)) << "a range";

  const auto below = Since("HEAD", "sub");
  ASSERT_TRUE(below) << below.error().Text();
  EXPECT_EQ(Lines(*below, "deep.py", 2, "sub"), "2");
  EXPECT_EQ(Lines(*below, "edited.py", 7), "");
}

TEST_F(ChangedLinesTest, NotebooksByCell) {
  const auto notebook = [](const std::string& first, const std::string& second,
                           const std::string& output) {
    return "{\"nbformat\": 4, \"cells\": [{\"cell_type\": \"markdown\", \"source\": \"x\"},\n"
           "{\"cell_type\": \"code\", \"outputs\": [\"" +
           output + "\"], \"source\": [" + first +
           "]},\n{\"cell_type\": \"code\", \"outputs\": [], \"source\": [" + second + "]}]}\n";
  };
  Write("n.ipynb", notebook("\"a = 1\\n\", \"b = 2\"", "\"c = 3\"", "1"));
  Write("outputs.ipynb", notebook("\"a = 1\"", "\"c = 3\"", "1"));
  Commit();
  Write("n.ipynb", notebook("\"a = 1\\n\", \"b = 20\"", "\"c = 3\"", "2"));
  Write("outputs.ipynb", notebook("\"a = 1\"", "\"c = 3\"", "17"));
  Write("new.ipynb", notebook("\"a = 1\"", "\"c = 3\"", "1"));
  const auto changed = Since("HEAD");
  ASSERT_TRUE(changed) << changed.error().Text();
  EXPECT_EQ(Lines(*changed, "n.ipynb:cell 2", 2), "2");
  EXPECT_EQ(Lines(*changed, "n.ipynb:cell 3", 2), "");
  EXPECT_EQ(Lines(*changed, "outputs.ipynb:cell 2", 2), "") << "outputs are no code";
  EXPECT_EQ(Lines(*changed, "new.ipynb:cell 3", 1), "1");
}

TEST_F(ChangedLinesTest, ErrorsSayWhatToDo) {
  Write("a.py", "1\n");
  Commit();
  for (const char* revision :
       {"no-such-branch", "--output=/tmp/x", "-p", "", "HEAD:a.py", "HEAD..", "a\nb"}) {
    const auto changed = Since(revision);
    ASSERT_FALSE(changed) << revision;
    EXPECT_NE(changed.error().kind, ErrorKind::kInternal);
    EXPECT_NE(changed.error().Text().find("branch"), std::string::npos) << changed.error().Text();
  }
  fs::remove_all(folder_ / ".git");
  const auto outside = Since("HEAD");
  ASSERT_FALSE(outside);
  EXPECT_NE(outside.error().Text().find("no git repository"), std::string::npos);
}

// A repository that somebody else made may ask git to run programs.
TEST_F(ChangedLinesTest, NothingOfTheRepositoryIsRun) {
  Write("a.py", "1\n2\n");
  Commit();
  const std::string trap = "touch " + (folder_ / "ran").string() + "; cat";
  for (const char* key :
       {"core.fsmonitor", "filter.trap.clean", "filter.trap.smudge", "filter.trap.process",
        "diff.trap.command", "diff.trap.textconv", "diff.external", "core.pager", "core.editor"}) {
    Git({"config", key, trap});
  }
  Git({"config", "filter.trap.required", "true"});
  Write(".git/hooks/post-index-change", "#!/bin/sh\n" + trap + "\n");
  fs::permissions(folder_ / ".git/hooks/post-index-change", fs::perms::owner_all);
  Write(".gitattributes", "*.py filter=trap diff=trap\n");
  Write("a.py", "1\nzwei\n");
  const auto changed = Since("HEAD");
  ASSERT_TRUE(changed) << changed.error().Text();
  EXPECT_EQ(Lines(*changed, "a.py", 2), "2");
  EXPECT_FALSE(fs::exists(folder_ / "ran"));
}

TEST(GitDiff, ContentIsNotTakenForHeaders) {
  const auto files = ParseDiff(
      "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n--- a/y.py\n-@@ -9 +9 "
      "@@\n"
      "+++ b/y.py\n+@@ -7 +7 @@\n@@ -8,0 +9 @@ def f():\n+z\n\\ No newline at end of file\n");
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files.at("x.py").ranges, (std::vector<std::pair<int, int>>{{1, 2}, {9, 9}}));
}

TEST(NewLines, AlignsAsManyAsItCan) {
  EXPECT_EQ(NewLines({"a", "b", "c"}, {"a", "x", "c"}), (std::vector<bool>{false, true, false}));
  EXPECT_EQ(NewLines({"a", "b"}, {"b", "a", "b"}), (std::vector<bool>{true, false, false}));
  EXPECT_EQ(NewLines({}, {"a"}), std::vector<bool>{true});
  EXPECT_EQ(NewLines({"a"}, {}), std::vector<bool>{});
  const std::vector<std::string_view> long_text(5000, "x");
  std::vector<std::string_view> changed(5000, "y");
  changed[2500] = "x";
  EXPECT_FALSE(NewLines(long_text, changed)[2500]) << "too large to align";
  EXPECT_TRUE(NewLines(long_text, changed)[2501]);
}

}  // namespace
}  // namespace mpnanny::check
