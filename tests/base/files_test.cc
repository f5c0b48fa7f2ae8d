#include "base/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/data_files.h"

namespace mpnanny {
namespace {
namespace fs = std::filesystem;

class FilesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "mpnanny-files-XXXXXX").string();
    dir_ = fs::canonical(mkdtemp(pattern.data()));
    Write("in/a.py", "import torch\n");
    Write("in-too/secret.py", "x\n");
    Write("out/b.py", "x\n");
  }
  void TearDown() override { fs::remove_all(dir_); }

  void Write(const std::string& name, const std::string& text) const {
    fs::create_directories((dir_ / name).parent_path());
    std::ofstream(dir_ / name, std::ios::binary) << text;
  }
  std::string Path(const std::string& name) const { return (dir_ / name).string(); }

  fs::path dir_;
};

TEST_F(FilesTest, ReadsWholeFilesAndRefusesWhatIsNone) {
  EXPECT_EQ(*ReadFile(Path("in/a.py"), 100), "import torch\n");
  EXPECT_EQ(ReadFile(Path("in/none.py"), 100).error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(ReadFile(Path("in"), 100).error().kind, ErrorKind::kInvalidInput);
  EXPECT_EQ(ReadFile(Path("in/a.py"), 5).error().kind, ErrorKind::kInvalidInput);
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  EXPECT_FALSE(ReadFile(Path("fifo"), 100));  // must not wait for a writer
  EXPECT_FALSE(ReadFile("/dev/zero", 100));
}

TEST_F(FilesTest, ReadsFilesWhoseSizeIsNotTold) {
  const auto text = ReadFile("/proc/self/status", 1 << 20);
  ASSERT_TRUE(text);
  EXPECT_NE(text->find("Name:"), std::string::npos);
}

TEST_F(FilesTest, RootsHoldAgainstDotsLinksAndLongerNames) {
  const auto roots = AllowedRoots::Create({Path("in")});
  ASSERT_TRUE(roots);
  EXPECT_EQ(*roots->Resolve("a.py"), Path("in/a.py"));
  EXPECT_EQ(*roots->Resolve(Path("in/../in/a.py")), Path("in/a.py"));
  EXPECT_EQ(roots->Resolve("../out/b.py").error().kind, ErrorKind::kInvalidInput);
  EXPECT_EQ(roots->Resolve(Path("in-too/secret.py")).error().kind, ErrorKind::kInvalidInput);
  fs::create_symlink(Path("out/b.py"), Path("in/link.py"));
  EXPECT_EQ(roots->Resolve("link.py").error().kind, ErrorKind::kInvalidInput);
  EXPECT_EQ(roots->Resolve("none.py").error().kind, ErrorKind::kNotFound);
  EXPECT_FALSE(roots->Resolve(""));
  EXPECT_FALSE(roots->Resolve(std::string("a.py\0x", 6)));
}

TEST_F(FilesTest, WhatLiesOutsideIsAnsweredAlikeWhetherItExistsOrNot) {
  const auto roots = AllowedRoots::Create({Path("in")});
  ASSERT_TRUE(roots);
  EXPECT_EQ(roots->Resolve("../out/b.py").error().kind,
            roots->Resolve("../out/none.py").error().kind);
}

TEST_F(FilesTest, LinksAreJudgedByWhereTheyLead) {
  const auto roots = AllowedRoots::Create({Path("in")});
  ASSERT_TRUE(roots);
  fs::create_symlink(Path("out/b.py"), Path("in/there.py"));
  fs::create_symlink(Path("out/none.py"), Path("in/missing.py"));
  fs::create_symlink("../out/none.py", Path("in/relative.py"));
  fs::create_symlink("missing.py", Path("in/twice.py"));
  for (const char* link : {"there.py", "missing.py", "relative.py", "twice.py"}) {
    const auto got = roots->Resolve(link);
    EXPECT_EQ(got.error().kind, ErrorKind::kInvalidInput) << link;
    EXPECT_NE(got.error().message.find("outside"), std::string::npos) << got.error().message;
  }
  fs::create_symlink("../in/none.py", Path("in/dangling.py"));
  EXPECT_EQ(roots->Resolve("dangling.py").error().kind, ErrorKind::kNotFound);
  fs::create_symlink("../in/a.py", Path("in/good.py"));
  EXPECT_EQ(*roots->Resolve("good.py"), Path("in/a.py"));
}

TEST_F(FilesTest, WhatLiesInsideAndCannotBeFollowedIsNotCalledOutside) {
  const auto roots = AllowedRoots::Create({Path("in")});
  ASSERT_TRUE(roots);
  fs::create_symlink("loop.py", Path("in/loop.py"));
  for (const std::string& path : {std::string("loop.py"), std::string(300, 'n')}) {
    const auto got = roots->Resolve(path);
    EXPECT_EQ(got.error().kind, ErrorKind::kInvalidInput) << path;
    EXPECT_EQ(got.error().message.find("outside"), std::string::npos) << got.error().message;
  }
  fs::create_symlink(Path("out/loop.py"), Path("out/loop.py"));
  EXPECT_NE(roots->Resolve("../out/loop.py").error().message.find("outside"), std::string::npos);
  EXPECT_NE(roots->Resolve("../" + std::string(300, 'n')).error().message.find("outside"),
            std::string::npos);
}

TEST_F(FilesTest, NoRootMeansTheWorkingDirectoryUnlessThatIsSlash) {
  const fs::path before = fs::current_path();
  fs::current_path(dir_);
  EXPECT_EQ(*AllowedRoots::Create({})->Resolve("in/a.py"), Path("in/a.py"));
  fs::current_path("/");
  const auto none = AllowedRoots::Create({});
  ASSERT_TRUE(none);
  EXPECT_EQ(none->Resolve(Path("in/a.py")).error().kind, ErrorKind::kUnavailable);
  fs::current_path(before);
  EXPECT_FALSE(AllowedRoots::Create({Path("nowhere")}));
  EXPECT_FALSE(AllowedRoots::Create({Path("in/a.py")}));
}

TEST_F(FilesTest, OverlayReplacesAndAddsDataFiles) {
  const auto plain = DataFiles::Create();
  ASSERT_TRUE(plain);
  const auto cases = plain->List("knowledge/cases/", ".md");
  ASSERT_FALSE(cases.empty());
  Write("data/" + cases.front(), "replaced");
  Write("data/knowledge/cases/zz-own.md", "own");
  const auto data = DataFiles::Create(Path("data"));
  ASSERT_TRUE(data);
  EXPECT_EQ(data->Read(cases.front()), "replaced");
  EXPECT_EQ(data->Read("knowledge/cases/zz-own.md"), "own");
  EXPECT_EQ(data->List("knowledge/cases/", ".md").size(), cases.size() + 1);
  EXPECT_FALSE(DataFiles::Create(Path("nowhere")));
}

TEST(DataFiles, EmbeddedBytesEqualTheFiles) {
  const auto data = DataFiles::Create();
  ASSERT_TRUE(data);
  for (const std::string& path : data->List("", "")) {
    // The chart library and the font are the machine's.
    const std::string where = path == "tools/report/page/chart.js" ? MPNANNY_CHART_JS
                              : path == "engines/pictures/DejaVuSans.ttf"
                                  ? MPNANNY_FONT
                                  : std::string(MPNANNY_SOURCE_DIR "/") + path;
    const auto file = ReadFile(where, 1 << 24);
    ASSERT_TRUE(file) << path;
    EXPECT_EQ(std::string(*data->Read(path)), *file) << path;
  }
}

}  // namespace
}  // namespace mpnanny
