// MPNANNY_LOG and MPNANNY_TRACE. Both are read once per process, so each case gets its own.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/trace.h"

namespace mpnanny {
namespace {
namespace fs = std::filesystem;

class Environment : public testing::Test {
 protected:
  // The child starts the program anew and has read neither variable yet.
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

[[noreturn]] void LogAt(const char* level) {
  setenv("MPNANNY_LOG", level, 1);
  LogWarning("a warning");
  LogDebug("a detail");
  std::exit(0);
}

TEST_F(Environment, AnUnknownLogLevelIsSaidAndCountsAsWarn) {
  EXPECT_EXIT(LogAt("loud"), testing::ExitedWithCode(0),
              "MPNANNY_LOG=loud is no level.*\n.*a warning\n$");
}

TEST_F(Environment, LogLevelsMayBeInCapitals) {
  EXPECT_EXIT(LogAt("DEBUG"), testing::ExitedWithCode(0), "a warning\n.*a detail\n$");
  EXPECT_EXIT(LogAt("off"), testing::ExitedWithCode(0), "^$");
}

// Exits with 0 if the file holds two spans that start at 0 or later.
[[noreturn]] void TraceTo(const std::string& path) {
  setenv("MPNANNY_TRACE", path.c_str(), 1);
  {
    const TraceSpan outer("outer");
    const TraceSpan inner("inner", "detail");
  }
  const auto text = ReadFile(path, 1 << 16);
  if (!text) std::exit(2);
  const auto events = ParseJson(text->substr(0, text->rfind(',')) + "]");
  if (!events || events->size() != 2) std::exit(3);
  for (const Json& event : *events) {
    if (event["ts"].get<double>() < 0) std::exit(4);
  }
  std::exit((*events)[0]["args"]["detail"] == "detail" ? 0 : 5);
}

TEST_F(Environment, TraceTimesAreNotNegative) {
  std::string pattern = (fs::temp_directory_path() / "mpnanny-trace-XXXXXX").string();
  const fs::path folder = mkdtemp(pattern.data());
  EXPECT_EXIT(TraceTo((folder / "trace.json").string()), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(TraceTo((folder / "none" / "trace.json").string()), testing::ExitedWithCode(2),
              "No trace: MPNANNY_TRACE=.*No such file");
  fs::remove_all(folder);
}

}  // namespace
}  // namespace mpnanny
