// Runs a program that may be hostile: user code, models. It gets limits of time, memory, processes
// and file sizes, no network, one folder to write in, and ends with all that it started.
//
// For a process of its own that does nothing else (tools/sandbox): it becomes the supervisor, and
// the program its child. What the kernel does not offer is not silently left out but named. Linux
// only; elsewhere nothing of this is built, and kCanConfine says so. One thread.
#ifndef MPNANNY_BASE_CONFINEMENT_H_
#define MPNANNY_BASE_CONFINEMENT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace mpnanny {

#ifdef __linux__
inline constexpr bool kCanConfine = true;
#else
inline constexpr bool kCanConfine = false;
#endif

struct Confinement {
  std::chrono::seconds wall{60};
  uint64_t memory_bytes = 8ull << 30;  // resident, of all processes together
  int processes = 64;                  // at a time, of the program and what it starts
  uint64_t file_bytes = 1ull << 30;    // of each file that it writes
  std::string writable;                // folder that it may write in; must exist
};

// How it ended.
struct ConfinedEnd {
  int exit_code = 0;     // 128 + the signal's number if one ended it
  std::string exceeded;  // the limit that ended it: "time", "memory", "processes", or ""
  std::vector<std::string> missing;  // what was not limited: "network", "writing", "processes"
};

// Starts `words` (the first is looked up in PATH unless it holds a slash) and waits. The program's
// descriptor 3 is what was standard output, its own standard output and error are standard error.
// Only variables of a fixed list are passed on; temporary files go to `writable`.
Result<ConfinedEnd> RunConfined(const Confinement& limits, const std::vector<std::string>& words);

// The same for a function of ours that meets hostile data: `call` runs in a forked child, which
// ends with what it returns; an exception that leaves it is a crash (SIGABRT). Of descriptors it
// has the standard streams and `kept`, the others are closed. It must not use threads that ran
// before the fork.
Result<ConfinedEnd> RunConfinedCall(const Confinement& limits, int kept,
                                    const std::function<int()>& call);

// Runs `call(told)` in a forked child and `listen(heard)` here: what the child, and whatever it has
// forked, writes to `told` can be read from `heard`, until nobody is left to write. Then waits for
// the child: its exit code, 128 + the signal's number if one ended it. For what a process can do
// once only, as being a supervisor.
Result<int> RunForked(const std::function<int(int told)>& call,
                      const std::function<void(int heard)>& listen);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_CONFINEMENT_H_
