// A program that we start and talk to line by line over pipes: its stdin, stdout and stderr.
//
// No shell takes part: the words are passed on as they are. The object owns the process and, since
// it is put into a process group of its own, what that starts; the destructor ends them all. Every
// wait has a limit, and what the program writes is kept up to a limit only. Used by one thread.
#ifndef MPNANNY_BASE_CHILD_PROCESS_H_
#define MPNANNY_BASE_CHILD_PROCESS_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mpnanny {

// A variable of the environment that a program is started with or, without a value, without.
struct EnvironmentChange {
  std::string name;
  std::optional<std::string> value;
};

class ChildProcess {
 public:
  using Clock = std::chrono::steady_clock;

  // Longest line that is read and most of stderr (its end) that is kept.
  static constexpr size_t kMostLineBytes = 16u << 20;
  static constexpr size_t kMostErrorBytes = 64u << 10;

  // Starts `words`, the first of which is looked up in PATH unless it holds a slash. NotFound if
  // there is no such program, InvalidInput if it cannot be run.
  static Result<std::unique_ptr<ChildProcess>> Start(
      const std::vector<std::string>& words, const std::vector<EnvironmentChange>& changes = {});
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Writes `line` and a newline; false if the program no longer reads or `until` has passed.
  bool WriteLine(std::string_view line, Clock::time_point until);
  void CloseInput();

  enum class ReadStatus {
    kLine,     // `text` is a line of stdout without its newline
    kEnd,      // stdout is closed; `text` is what came after the last newline
    kTimeout,  // `until` has passed; `text` is what came of a line so far
    kTooLong,  // no newline within kMostLineBytes
  };
  struct Line {
    ReadStatus status;
    std::string text;
  };
  Line ReadLine(Clock::time_point until);

  // The exit code once the program has ended, 128 + the signal's number if one ended it; nullopt if
  // it still runs at `until`.
  std::optional<int> Wait(Clock::time_point until);

  // What it wrote to stderr, as far as it was seen while reading and waiting.
  const std::string& errors() const { return errors_; }
  void ForgetErrors() { errors_.clear(); }

 private:
#ifdef _WIN32
  struct System;  // its handles, and the threads that read from it
  explicit ChildProcess(std::unique_ptr<System> system);
  std::unique_ptr<System> system_;
#else
  ChildProcess(int pid, int in, int out, int err);
  bool WaitForOutput(Clock::time_point until);

  int pid_;
  int in_;   // -1: closed
  int out_;  // -1: ended
  int err_;  // -1: ended
#endif
  void TakeErrors();

  std::string partial_;
  std::string errors_;
  std::optional<int> exit_code_;
};

// What a program that asks for no input wrote until it ended.
struct ProgramOutput {
  std::optional<int> exit_code;  // nullopt: it did not end in time and was killed
  std::string out;
  std::string err;
};
Result<ProgramOutput> RunProgram(const std::vector<std::string>& words,
                                 std::chrono::milliseconds limit,
                                 const std::vector<EnvironmentChange>& changes = {});

}  // namespace mpnanny

#endif  // MPNANNY_BASE_CHILD_PROCESS_H_
