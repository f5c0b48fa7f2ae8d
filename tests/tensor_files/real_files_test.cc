// Files that torch, NumPy and safetensors themselves wrote (write_files.py), read element by
// element.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/child_process.h"
#include "base/json.h"
#include "tests/tensor_files/read_elements.h"

namespace mpnanny::tensor_files {
namespace {

namespace fs = std::filesystem;

std::string ReadAll(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// Index of the first element that differs, a NaN being equal to a NaN; -1: none.
int64_t FirstDifference(const std::vector<double>& read, const std::string& expected) {
  if (read.size() * sizeof(double) != expected.size()) return 0;
  for (size_t i = 0; i < read.size(); ++i) {
    double want = 0;
    std::memcpy(&want, expected.data() + i * sizeof(double), sizeof(want));
    if (std::isnan(want) ? !std::isnan(read[i]) : std::memcmp(&want, &read[i], sizeof(want)) != 0)
      return static_cast<int64_t>(i);
  }
  return -1;
}

class RealFiles : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const fs::path python = fs::path(MPNANNY_SOURCE_DIR) / ".venv/bin/python";
    if (!fs::exists(python)) return;
    folder_ = TestFolder("real");
    const auto written =
        RunProgram({python.string(),
                    (fs::path(MPNANNY_SOURCE_DIR) / "tests/tensor_files/write_files.py").string(),
                    folder_.string()},
                   std::chrono::minutes(5));
    ASSERT_TRUE(written) << written.error().Text();
    if (written->err.find("No module named 'torch'") != std::string::npos) return;
    ASSERT_EQ(written->exit_code, 0) << written->err;
    auto expected = ParseJson(ReadAll(folder_ / "expected.json"));
    ASSERT_TRUE(expected);
    expected_ = *std::move(expected);
  }
  void SetUp() override {
    if (expected_.empty()) GTEST_SKIP() << "no .venv with torch: run ./scripts/setup";
  }

  static inline fs::path folder_;
  static inline Json expected_;
};

TEST_F(RealFiles, GiveEveryTensorWithItsElements) {
  size_t compared = 0;
  for (const auto& [name, tensors] : expected_.items()) {
    const auto file = OpenAny((folder_ / name).string());
    ASSERT_TRUE(file) << name << ": " << file.error().Text();
    for (const Json& want : tensors) {
      const std::string key = want["key"].get<std::string>();
      const std::string where = name + ": " + key;
      const Entry* const entry = FindEntry(file->entries(), key);
      ASSERT_TRUE(entry) << where;
      EXPECT_EQ(entry->shape, want["shape"].get<std::vector<int64_t>>()) << where;
      ASSERT_TRUE(entry->type) << where << ": " << entry->problem;
      EXPECT_EQ(entry->type->name, want["dtype"].get<std::string>()) << where;
      const auto elements = Elements::Read(*entry);
      if (want["values"].is_null()) {
        EXPECT_FALSE(elements) << where;
        EXPECT_FALSE(entry->problem.empty()) << where;
        continue;
      }
      ASSERT_TRUE(elements) << where << ": " << elements.error().Text();
      const std::string values = ReadAll(folder_ / want["values"].get<std::string>());
      EXPECT_EQ(FirstDifference(AllElements(elements->view()), values), -1) << where;
      ++compared;
    }
    EXPECT_FALSE(file->changed());
  }
  EXPECT_GT(compared, 200u);
}

TEST_F(RealFiles, ListNothingThatIsNotThere) {
  for (const auto& [name, tensors] : expected_.items()) {
    // Also constants of the code, parts of sparse tensors, the parameters of an optimizer.
    if (name == "script.pt" || name == "others.pt" || name == "optimizer.pt") continue;
    const auto file = OpenAny((folder_ / name).string());
    ASSERT_TRUE(file) << name << ": " << file.error().Text();
    EXPECT_EQ(file->entries().size(), tensors.size()) << name;
  }
}

TEST_F(RealFiles, NameWhatPythonWouldImportAndNothingElse) {
  const auto notes = [&](const std::string& name) {
    const auto file = OpenAny((folder_ / name).string());
    std::string all;
    for (const std::string& note : file ? file->notes() : std::vector<std::string>{})
      all += note + "\n";
    return all;
  };
  EXPECT_EQ(notes("checkpoint.pt"), "");
  EXPECT_EQ(notes("dtypes_zip.pt"), "");
  EXPECT_EQ(notes("others.pt"), "");
  const std::string whole = notes("whole_model.pt");
  EXPECT_NE(whole.find("__main__.Net"), std::string::npos) << whole;
  EXPECT_NE(whole.find("torch.nn.modules.linear.Linear"), std::string::npos) << whole;
}

}  // namespace
}  // namespace mpnanny::tensor_files
