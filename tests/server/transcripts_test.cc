// Plays tests/transcripts/*.jsonl: each is a whole session with the product. The format:
// tests/transcripts/README.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/child_process.h"

namespace mpnanny {
namespace {

namespace fs = std::filesystem;

constexpr char kFolder[] = MPNANNY_SOURCE_DIR "/tests/transcripts";

std::vector<std::string> Transcripts() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".jsonl") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Transcript : public testing::TestWithParam<std::string> {};

TEST_P(Transcript, Plays) {
  const auto output = RunProgram({MPNANNY_PROGRAM, "serve", "--root", MPNANNY_SOURCE_DIR "/tests",
                                  "--replay", std::string(kFolder) + "/" + GetParam() + ".jsonl"},
                                 std::chrono::seconds(100));
  ASSERT_TRUE(output) << output.error().Text();
  EXPECT_EQ(output->exit_code, 0) << output->out << output->err;
  EXPECT_NE(output->out.find("no differences"), std::string::npos) << output->out;
}

INSTANTIATE_TEST_SUITE_P(All, Transcript, testing::ValuesIn(Transcripts()), [](const auto& each) {
  std::string name = each.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace mpnanny
