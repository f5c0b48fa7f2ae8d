// The real program as a child process: `mpnanny serve …` with pipes to its stdin and stdout.
#ifndef MPNANNY_TESTS_HOSTILE_PROGRAM_H_
#define MPNANNY_TESTS_HOSTILE_PROGRAM_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "tests/server/test_server.h"

namespace mpnanny::hostile {

class Program {
 public:
  // Runs in a new empty folder, which is its only root.
  explicit Program(std::vector<std::string> arguments);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // What it has written to stderr so far.
  std::string Log() const;
  void Signal(int number) const;
  // The exit code; negative for a signal.
  int Wait();

 private:
  std::string folder_;
  PipePair pipes_;
  pid_t pid_ = -1;

 public:
  PipeClient client;
};

}  // namespace mpnanny::hostile

#endif  // MPNANNY_TESTS_HOSTILE_PROGRAM_H_
