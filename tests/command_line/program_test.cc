// The built program itself: what only main() and the process decide.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/json.h"
#include "base/version.h"

namespace mpnanny {
namespace {

struct ShellOutcome {
  int code = -1;
  std::string out;  // stdout; stderr too where the command says so
};

ShellOutcome Shell(const std::string& command) {
  ShellOutcome outcome;
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (!pipe) return outcome;
  char buffer[4096];
  for (size_t n = 0; (n = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
    outcome.out.append(buffer, n);
  const int status = pclose(pipe);
  outcome.code = status >= 0 && (status & 0x7f) == 0 ? (status >> 8) & 0xff : -1;
  return outcome;
}

const std::string kProgram = std::string("'") + MPNANNY_PROGRAM + "'";

TEST(Program, TellsItsVersion) {
  const ShellOutcome outcome = Shell(kProgram + " --version");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(outcome.out.starts_with(std::string("mpnanny ") + kVersion)) << outcome.out;
  for (const char* fact : {"\nrevision ", "\nplatform ", "\ncompiler ", "\ndatabase schema ",
                           "\nMCP revisions 2026-07-28, ", "\nSQLite 3.",
                           "\nlibraries tree-sitter 0.", "\nLibTorch not linked; "}) {
    EXPECT_NE(outcome.out.find(fact), std::string::npos) << fact;
  }
  EXPECT_EQ(outcome.out.find(" ,"), std::string::npos) << "a version is missing: " << outcome.out;
}

TEST(Program, ServesWhenAProgramStartsItWithoutArguments) {
  const std::string request =
      R"({"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-06-18",)"
      R"("capabilities":{},"clientInfo":{"name":"test","version":"1"}}})";
  for (const char* arguments : {"", " serve"}) {
    const ShellOutcome outcome =
        Shell("printf '%s\\n' '" + request + "' | " + kProgram + arguments + " 2>/dev/null");
    EXPECT_EQ(outcome.code, 0);
    const auto reply = ParseJson(outcome.out);
    ASSERT_TRUE(reply) << outcome.out;
    EXPECT_EQ((*reply)["id"], 7);
    EXPECT_EQ((*reply)["result"]["serverInfo"]["name"], "mpnanny");
  }
}

TEST(Program, EndsWithItsInput) {
  const ShellOutcome outcome = Shell(kProgram + " </dev/null");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, "");
}

TEST(Program, ErrorsLeaveStdoutEmpty) {
  for (const char* arguments :
       {" nosuchcommand", " serve --rot x", " serve --root /no/such/folder", " call nosuchtool",
        " runs /no/such/folder", " config nosuchclient", " runs --format xml"}) {
    const ShellOutcome outcome = Shell(kProgram + arguments + " 2>/dev/null </dev/null");
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
    const ShellOutcome told = Shell(kProgram + arguments + " 2>&1 >/dev/null </dev/null");
    EXPECT_GT(told.out.size(), 20u) << arguments << " says nothing";
  }
}

TEST(Program, CallReadsOnlyBelowItsRoots) {
  namespace fs = std::filesystem;
  const std::string folder = ::testing::TempDir() + "call_roots";
  fs::create_directories(folder);
  const std::string arguments = " call list_runs --args '{\"path\":\"" + folder + "\"}'";
  EXPECT_EQ(Shell(kProgram + arguments + " --root '" + folder + "'").code, 0);
  const ShellOutcome refused =
      Shell(kProgram + arguments + " --root '" + MPNANNY_SOURCE_DIR + "' 2>&1");
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(ParseJson(refused.out)) << refused.out;
}

TEST(Program, AnAnswerThatCannotBeWrittenIsAnError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  for (const char* arguments : {" --version", " --help", " rules", " config cursor",
                                " call list_runs", " runs", " knowledge lint"}) {
    const ShellOutcome outcome = Shell(kProgram + arguments + " 2>&1 >/dev/full </dev/null");
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_NE(outcome.out.find("could not be written"), std::string::npos) << outcome.out;
  }
}

TEST(Program, AClosedPipeIsNoCrash) { EXPECT_EQ(Shell(kProgram + " --help | head -c 1").out, "m"); }

}  // namespace
}  // namespace mpnanny
