// Which files of a folder are looked at, and that what happens meanwhile is survived.
#include "engines/check/inputs/sources.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/child_process.h"

namespace mpnanny::check {
namespace {

namespace fs = std::filesystem;

class SourcesTest : public testing::Test {
 protected:
  SourcesTest()
      : folder_(fs::temp_directory_path() / ("mpnanny-sources-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~SourcesTest() override { fs::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text = "import torch\n") const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  std::string Git(std::vector<std::string> words) const {
    words.insert(words.begin(), {"git", "-C", folder_.string()});
    const auto output = RunProgram(words, std::chrono::seconds(60));
    EXPECT_TRUE(output) << "git is needed by this test: " << output.error().Text();
    return output ? output->out : "";
  }
  CollectedSources Collect(const fs::path& path) const {
    auto collected = CollectSources({path.string()}, AllowedRoots::Unrestricted(), {});
    EXPECT_TRUE(collected) << collected.error().Text();
    return collected ? std::move(*collected) : CollectedSources{};
  }
  // Relative to the test's folder.
  std::set<std::string> Paths(const fs::path& path) const {
    std::set<std::string> paths;
    for (const Source& source : Collect(path).sources)
      paths.insert(fs::path(source.path).lexically_relative(folder_).string());
    return paths;
  }

  const fs::path folder_;
};

TEST_F(SourcesTest, WhatGitIgnoresIsLeftOut) {
  Git({"init", "-q"});
  for (const char* folder : {"", "src/", "src/gen/", "src/gen/keep/", "data/", "data/deep/"}) {
    for (const char* name : {"a.py", "b.py", "a_pb2.py", "keep.py"})
      Write(std::string(folder) + name);
  }
  Write(".gitignore", "*_pb2.py\n/data/*\n!/data/deep\n");
  Write("src/.gitignore", "gen/*.py\n!keep.py\n/b.py\n!a_pb2.py\n");
  Write("src/gen/.gitignore", "keep/\n");
  Write(".git/info/exclude", "/b.py\n");
  const auto untracked = [&](const std::string& below) {
    std::set<std::string> paths;
    std::istringstream lines(Git({"ls-files", "--others", "--exclude-standard", "--", below}));
    for (std::string line; std::getline(lines, line);) {
      if (line.ends_with(".py")) paths.insert(line);
    }
    return paths;
  };
  EXPECT_EQ(Paths(folder_), untracked("."));
  EXPECT_EQ(Paths(folder_ / "src"), untracked("src"));
  EXPECT_EQ(Paths(folder_ / "src" / "gen"), untracked("src/gen"));
  EXPECT_EQ(untracked(".").size(), 10u) << "the patterns above should cut both ways";
  // What is named is wanted, whatever is said of it further up.
  EXPECT_EQ(Paths(folder_ / "src" / "gen" / "keep").size(), 4u);
  EXPECT_EQ(Paths(folder_ / "b.py").size(), 1u);
}

TEST_F(SourcesTest, LinksAreNotFollowed) {
  Write("a.py");
  fs::create_directory_symlink(folder_, folder_ / "loop");
  fs::create_symlink("nowhere.py", folder_ / "dangling.py");
  fs::create_symlink("self.py", folder_ / "self.py");
  EXPECT_EQ(Paths(folder_), std::set<std::string>{"a.py"});
  EXPECT_FALSE(CollectSources({(folder_ / "self.py").string()}, AllowedRoots::Unrestricted(), {}));
}

TEST_F(SourcesTest, WhatCannotBeReadIsToldAndTheRestRead) {
  Write("a.py");
  Write("huge.py", std::string(kMaxSourceBytes + 1, '#'));
  ASSERT_EQ(mkfifo((folder_ / "pipe.py").c_str(), 0600), 0);
  size_t wanted = 1;
  if (geteuid() != 0) {  // root may read everything
    Write("secret.py");
    fs::permissions(folder_ / "secret.py", fs::perms::none);
    ++wanted;
  }
  const CollectedSources collected = Collect(folder_);
  EXPECT_EQ(collected.sources.size(), 1u);
  EXPECT_EQ(collected.notes.size(), wanted);
  EXPECT_NE(collected.notes.at(0).find("huge.py"), std::string::npos);
}

// Files come and go while they are listed and read.
TEST_F(SourcesTest, FilesThatVanishAreNoFailure) {
  std::atomic<bool> stop = false;
  for (int i = 0; i < 50; ++i) Write("stays" + std::to_string(i) + ".py");
  std::thread other([&] {
    while (!stop) {
      for (int i = 0; i < 50; ++i) Write("comes" + std::to_string(i) + ".py");
      for (int i = 0; i < 50; ++i) fs::remove(folder_ / ("comes" + std::to_string(i) + ".py"));
    }
  });
  for (int i = 0; i < 60; ++i) {
    const CollectedSources collected = Collect(folder_);
    EXPECT_GE(collected.sources.size(), 50u);
    for (const std::string& note : collected.notes)
      EXPECT_NE(note.find("comes"), std::string::npos) << note;
  }
  stop = true;
  other.join();
}

}  // namespace
}  // namespace mpnanny::check
