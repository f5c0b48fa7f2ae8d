// Every tool over runs, found by its definition, and a fixture that asks all of them about a path.
#ifndef MPNANNY_TESTS_RUNS_RUN_TOOLS_H_
#define MPNANNY_TESTS_RUNS_RUN_TOOLS_H_

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/runs/recording.h"

namespace mpnanny::test {

std::string ReadAll(const std::string& path);

// A sound run of 200 steps.
void HealthyRun(const std::string& path, bool wal = false, const std::string& ended = "closed");

// A tool that takes a run, and how it is asked about `path`; `good` is a sound one for tools that
// want two.
struct RunTool {
  std::string name;
  std::function<Json(const std::string& path, const std::string& good)> arguments;
};
std::vector<RunTool> RunTools();

class RunToolsTest : public ::testing::Test {
 protected:
  void SetUp() override;

  Result<ToolOutput> Ask(const RunTool& tool, const std::string& path);
  // Every tool refuses the file with an error of this kind that names it, holds `words` and says
  // what to try.
  void Refused(const std::string& path, ErrorKind kind, const std::string& words,
               bool listed_as_none = false);
  // Every tool answers; Call() checks shape and size.
  std::vector<ToolOutput> Answered(const std::string& path);

  TempFolder folder_, good_;
};

}  // namespace mpnanny::test

#endif  // MPNANNY_TESTS_RUNS_RUN_TOOLS_H_
