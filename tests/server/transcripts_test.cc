// Plays tests/transcripts/*.jsonl against the built program. The format:
// tests/transcripts/README.md.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/server/test_server.h"

extern char** environ;

namespace mpnanny {
namespace {

namespace fs = std::filesystem;

// "" if `value` fits `pattern`, else where it does not.
std::string Mismatch(const Json& pattern, const Json& value, const std::string& where) {
  const std::string differs =
      where + ": expected " + DumpJson(pattern) + ", got " + DumpJson(value).substr(0, 500);
  if (pattern.is_array()) {
    if (!value.is_array() || value.size() != pattern.size()) return differs;
    for (size_t i = 0; i < pattern.size(); ++i) {
      const std::string inner = Mismatch(pattern[i], value[i], where + "/" + std::to_string(i));
      if (!inner.empty()) return inner;
    }
    return "";
  }
  if (!pattern.is_object()) return pattern == value ? "" : differs;
  if (pattern.contains("$any")) return "";
  if (pattern.contains("$contains")) {
    const bool fits =
        value.is_string() &&
        value.get<std::string>().find(pattern["$contains"].get<std::string>()) != std::string::npos;
    return fits ? "" : differs;
  }
  if (pattern.contains("$has")) {
    for (const Json& each : pattern["$has"]) {
      const bool found =
          value.is_array() && std::any_of(value.begin(), value.end(), [&](const Json& item) {
            return Mismatch(each, item, "").empty();
          });
      if (!found) return where + ": nothing fits " + DumpJson(each);
    }
    return "";
  }
  if (!value.is_object()) return differs;
  for (const auto& [key, expected] : pattern.items()) {
    const std::string inner_where = where + "/" + key;
    const bool absent = expected.is_object() && expected.contains("$absent");
    if (absent != !value.contains(key))
      return inner_where + (absent ? ": should be absent" : ": is missing");
    if (absent) continue;
    const std::string inner = Mismatch(expected, value[key], inner_where);
    if (!inner.empty()) return inner;
  }
  return "";
}

class Program {
 public:
  Program() : pipes_(MakePipes()), client(pipes_.client_out, pipes_.client_in) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipes_.server_in, 0);
    posix_spawn_file_actions_adddup2(&actions, pipes_.server_out, 1);
    for (const int fd :
         {pipes_.client_out, pipes_.server_in, pipes_.server_out, pipes_.client_in}) {
      posix_spawn_file_actions_addclose(&actions, fd);
    }
    std::string program = MPNANNY_PROGRAM;
    std::string root = MPNANNY_SOURCE_DIR "/tests";
    std::string serve = "serve";
    std::string option = "--root";
    char* const arguments[] = {program.data(), serve.data(), option.data(), root.data(), nullptr};
    EXPECT_EQ(posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(pipes_.server_in);
    close(pipes_.server_out);
  }

  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  PipePair pipes_;
  pid_t pid_ = -1;

 public:
  PipeClient client;
};

std::vector<std::string> Transcripts() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(MPNANNY_SOURCE_DIR "/tests/transcripts")) {
    if (entry.path().extension() == ".jsonl") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Transcript : public testing::TestWithParam<std::string> {};

TEST_P(Transcript, Plays) {
  std::ifstream file(MPNANNY_SOURCE_DIR "/tests/transcripts/" + GetParam() + ".jsonl");
  Program program;
  bool ended = false;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const std::string where = GetParam() + ".jsonl:" + std::to_string(number);
    const auto step = ParseJson(line);
    ASSERT_TRUE(step) << where << ": " << step.error().message;
    ASSERT_EQ(number == 1, step->contains("era")) << where;
    if (step->contains("send")) {
      program.client.Send((*step)["send"]);
    } else if (step->contains("raw")) {
      program.client.SendLine((*step)["raw"].get<std::string>());
    } else if (step->contains("expect")) {
      const std::string mismatch = Mismatch((*step)["expect"], program.client.Read(), "");
      EXPECT_EQ(mismatch, "") << where;
    } else if (step->contains("end")) {
      program.client.CloseInput();
      EXPECT_TRUE(program.client.ReadAll().empty()) << where;
      EXPECT_EQ(program.Wait(), 0) << where;
      ended = true;
    } else {
      ASSERT_EQ(number, 1) << where << ": no such step";
    }
  }
  EXPECT_TRUE(ended) << "the last line is {\"end\": true}";
}

INSTANTIATE_TEST_SUITE_P(All, Transcript, testing::ValuesIn(Transcripts()), [](const auto& each) {
  std::string name = each.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace mpnanny
