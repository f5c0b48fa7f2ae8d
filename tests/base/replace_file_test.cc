// A file that is replaced: at once, with its mode, through links; and what two texts differ in.
#include "base/replace_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/unified_diff.h"

namespace mpnanny {
namespace {

namespace fs = std::filesystem;

class ReplaceFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("replace-" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Text(const std::string& name) const {
    std::ifstream in(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  size_t Entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

  fs::path folder_;
};

TEST_F(ReplaceFileTest, ANewFileIsForItsOwnerOnlyAndAnOldOneKeepsItsMode) {
  ASSERT_TRUE(ReplaceFile(folder_ / "a", "one"));
  EXPECT_EQ(fs::status(folder_ / "a").permissions(), fs::perms(0600));
  fs::permissions(folder_ / "a", fs::perms(0754));
  ASSERT_TRUE(ReplaceFile(folder_ / "a", std::string("two\0three", 9)));
  EXPECT_EQ(Text("a"), std::string("two\0three", 9));
  EXPECT_EQ(fs::status(folder_ / "a").permissions(), fs::perms(0754));
  EXPECT_EQ(Entries(), 1u) << "nothing is left beside it";
}

TEST_F(ReplaceFileTest, ALinkStaysALink) {
  ASSERT_TRUE(ReplaceFile(folder_ / "a", "one"));
  fs::create_symlink("a", folder_ / "b");
  fs::create_symlink("b", folder_ / "c");
  ASSERT_TRUE(ReplaceFile(folder_ / "c", "two"));
  EXPECT_EQ(Text("a"), "two");
  EXPECT_TRUE(fs::is_symlink(folder_ / "c"));
  fs::remove(folder_ / "a");
  const auto dangling = ReplaceFile(folder_ / "c", "three");
  ASSERT_FALSE(dangling);
  EXPECT_NE(dangling.error().message.find("leads to no file"), std::string::npos);
}

TEST_F(ReplaceFileTest, WhatCannotBeWrittenIsNamedByItsOwnName) {
  fs::create_directory(folder_ / "d");
  const auto folder = ReplaceFile(folder_ / "d", "x");
  ASSERT_FALSE(folder);
  EXPECT_EQ(Entries(), 1u);
  const auto missing = ReplaceFile(folder_ / "no" / "a", "x");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message.find(".part-"), std::string::npos) << missing.error().Text();
}

TEST(UnifiedDiffTest, IsWhatPatchReads) {
  EXPECT_EQ(UnifiedDiff("f", "a\n", "a\n"), "");
  EXPECT_EQ(UnifiedDiff("f", "", "a\nb\n"), "--- f\n+++ f\n@@ -0,0 +1,2 @@\n+a\n+b\n");
  EXPECT_EQ(UnifiedDiff("f", "a\n", ""), "--- f\n+++ f\n@@ -1,1 +0,0 @@\n-a\n");
  EXPECT_EQ(UnifiedDiff("f", "1\n2\n3\n4\nx", "1\n2\n3\n4\nx\n"),
            "--- f\n+++ f\n@@ -3,3 +3,3 @@\n 3\n 4\n-x\n\\ No newline at end of file\n+x\n");
}

}  // namespace
}  // namespace mpnanny
