// A program that runs beside another one: the training in this process's place, and a helper that
// must neither hold it up nor outlive it.
//
// For a process that does nothing else: RunInPlace() takes signals for its duration. Used by one
// thread.
#ifndef MPNANNY_BASE_COMPANION_H_
#define MPNANNY_BASE_COMPANION_H_

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace mpnanny {

// The helper. It reads nothing, writes to our stderr, and stands in a process group of its own, so
// that Ctrl-C at the terminal does not reach it. It gets SIGTERM when this process dies.
class Companion {
 public:
  static Result<Companion> Start(const std::vector<std::string>& words);
  Companion(Companion&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Companion& operator=(Companion&&) = delete;
  ~Companion();  // kills it

  // Sends it SIGTERM, and waits at most so long, or until this process gets a signal to end. True
  // if it has ended.
  bool End(std::chrono::milliseconds most);

 private:
  explicit Companion(int pid) : pid_(pid) {}
  int pid_;
};

struct HowItEnded {
  int exit_code = 0;
  int signal = 0;  // not zero: that ended it
};
// Runs a program as if this process had become it: same descriptors, terminal, group and signals,
// which are handed on; it dies with this process. `variables` join its environment, and
// `process_variable` has its id. An error only where it could not be started.
Result<HowItEnded> RunInPlace(const std::vector<std::string>& words,
                              const std::vector<std::pair<std::string, std::string>>& variables,
                              const std::string& process_variable);

// Ends this process by the signal that ended the other one; returns its exit code otherwise.
int EndAs(const HowItEnded& ended);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_COMPANION_H_
