// mpnanny-sandbox as a program: what it hands to the one that it runs, and what it keeps.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/job_relay.h"
#include "tests/base/confined_call.h"

namespace mpnanny {
namespace {

namespace fs = std::filesystem;

const std::string kSandbox = (fs::path(MPNANNY_PROGRAM).parent_path() / "mpnanny-sandbox").string();

// Of a fixture, for its folder.
class ConfinedProgram : public ConfinedCall {
 protected:
  // Becomes mpnanny-sandbox, whose standard output `told` is.
  int Become(int told, const std::string& script) const {
    dup2(told, STDOUT_FILENO);
    const std::string& writable = limits_.writable;
    execl(kSandbox.c_str(), kSandbox.c_str(), "--seconds", "20", "--memory-mb", "500",
          "--processes", "16", "--file-mb", "10", "--writable", writable.c_str(), "--", "/bin/sh",
          "-c", script.c_str(), nullptr);
    return 1;
  }

  std::string Output(const std::string& script, const std::function<void()>& before = [] {}) {
    std::string output;
    const auto ended = RunForked(
        [&](int told) {
          before();
          return Become(told, script);
        },
        [&](int heard) { output = ReadAll(heard); });
    EXPECT_EQ(ended ? *ended : -1, 0);
    return output;
  }
};

TEST_F(ConfinedProgram, HasTheStandardStreamsAndTheAnswersAndNoMore) {
  const std::string file = (folder_ / "file").string();
  const std::string output =
      Output("for each in /proc/self/fd/*; do echo ${each##*/} >&3; done", [&] {
        dup2(open(file.c_str(), O_CREAT | O_RDWR, 0600), 40);  // stays open over exec
        dup2(40, 7);
      });
  std::istringstream lines(output);
  std::vector<std::string> open_ones;
  for (std::string line; std::getline(lines, line) && line.starts_with(kJobMark);)
    open_ones.push_back(line.substr(1));
  // The shell's own look at the folder is 4, perhaps.
  if (!open_ones.empty() && open_ones.back() == "4") open_ones.pop_back();
  EXPECT_EQ(open_ones, (std::vector<std::string>{"0", "1", "2", "3"})) << output;
}

TEST_F(ConfinedProgram, NobodyReadsTheTokensOfItsSupervisor) {
  std::string found;
  std::string of_the_program;
  const auto ended = RunForked(
      [&](int told) {
        dprintf(told, "%d\n", getpid());
        setenv("A_TOKEN", "of-a-test", 1);
        return Become(told, "cat /proc/[0-9]*/environ | tr '\\0' '\\n' >&3; echo on >&3; sleep 30");
      },
      [&](int heard) {
        std::string text;
        for (char byte = 0; !text.ends_with("on\n") && read(heard, &byte, 1) == 1;) text += byte;
        of_the_program = text;
        const int supervisor = std::atoi(text.c_str());
        std::ostringstream environment;
        environment << std::ifstream("/proc/" + std::to_string(supervisor) + "/environ").rdbuf();
        found = environment.str();
        kill(supervisor, SIGTERM);
        ReadAll(heard);
      });
  EXPECT_TRUE(ended);
  EXPECT_EQ(found.find("of-a-test"), std::string::npos);
  EXPECT_EQ(of_the_program.find("of-a-test"), std::string::npos);
  EXPECT_NE(of_the_program.find("PATH="), std::string::npos);
}

TEST_F(ConfinedProgram, ChecksWithoutRunningAnything) {
  std::string output;
  const auto ended = RunForked(
      [&](int told) {
        dup2(told, STDOUT_FILENO);
        ForbidNamespaces();
        execl(kSandbox.c_str(), kSandbox.c_str(), "--check", "--writable", limits_.writable.c_str(),
              nullptr);
        return 1;
      },
      [&](int heard) { output = ReadAll(heard); });
  EXPECT_EQ(ended ? *ended : -1, 0);
  const auto line = ParseJson(output);
  ASSERT_TRUE(line) << output;
  EXPECT_TRUE(EndOf((*line)["end"]).refused);
  EXPECT_EQ(EndOf((*line)["end"]).missing,
            (std::vector<Lack>{Lack::kProcesses, Lack::kDevices, Lack::kMemory}));
}

}  // namespace
}  // namespace mpnanny
