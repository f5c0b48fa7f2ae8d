// Runs a program that may be hostile: user code, models. It gets limits of time, memory, processes
// and file sizes, no network, one folder to write in, and ends with all that it started.
//
// A program that computes on a GPU is let through to the device files and to what their drivers
// need (docs/sandbox.md has the table).
//
// For a process of its own that does nothing else (engines/sandbox): it becomes the supervisor.
// Between it and the program stands a keeper, a fork of it, which is the first process of the
// program's PID namespace: each of the two ends the program when the other one is gone. What the
// kernel does not offer is found before the program starts, and it does not start unless that is
// allowed. Linux only; elsewhere only the names of what may lack are built, and kCanConfine says
// so. One thread.
#ifndef MPNANNY_BASE_CONFINEMENT_H_
#define MPNANNY_BASE_CONFINEMENT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/word.h"

namespace mpnanny {

#ifdef __linux__
inline constexpr bool kCanConfine = true;
#else
inline constexpr bool kCanConfine = false;
#endif

// What a machine may not be able to keep a program from.
enum class Lack {
  kWriting,      // files outside of its folder: no Landlock
  kSystemCalls,  // the rest of the kernel: metadata of files, IPC, keys …: no seccomp filters
  kNetwork,      // the same
  kProcesses,    // other processes: no user or PID namespaces, or no /proc of its own
  kDevices,      // terminals, disks: no mount namespace
  kMemory,       // memory that nobody is charged for: shared memory of /dev
};

// All of them, with the words that programs know them by: "writing", "system_calls" …
struct LackName {
  Lack lack;
  const char* name;
};
const std::vector<LackName>& LackNames();
const char* NameOf(Lack lack);
// nullopt for other words.
std::optional<Lack> LackOf(std::string_view name);

// One part of a confinement, which can be left out alone to see whether it is what a driver cannot
// bear. For checks that are started by hand; what is missing then is reported as if the machine
// did not have it.
enum class Fence {
  kNamespaces,    // of users, processes, network, IPC, mounts: all of the own view
  kDevices,       // the own /dev
  kReadOnly,      // mounts that cannot be written
  kProcesses,     // the own /proc
  kWriting,       // Landlock
  kSystemCalls,   // the filter
  kCapabilities,  // none
  kResources,     // limits of memory, file sizes, processes and core files that the kernel keeps
};
template <>
struct Vocabulary<Fence> {
  static constexpr const char* kNames[] = {"namespaces",   "devices",  "read_only",
                                           "processes",    "writing",  "system_calls",
                                           "capabilities", "resources"};
};

struct Confinement {
  std::chrono::seconds wall{60};
  uint64_t memory_bytes = 8ull << 30;  // of all processes together, shared memory and tmpfs too
  int processes = 64;                  // at a time, of the program and what it starts
  uint64_t file_bytes = 1ull << 30;    // of each file that it writes
  std::string writable;                // folder that it may write in; must exist
  bool allow_weaker = false;           // run it although something lacks
  // It may compute on the machine's GPUs. For programs: a call's shared memory is not counted
  // without a control group.
  bool gpu = false;
  std::optional<Fence> without = std::nullopt;
};

// How it ended.
struct ConfinedEnd {
  int exit_code = 0;          // 128 + the signal's number if one ended it
  std::string exceeded;       // the limit that ended it: "time", "memory", "processes", or ""
  std::vector<Lack> missing;  // what it could not be kept from
  bool refused = false;       // it was not run, because of them
};

// {"exit_code", "exceeded", "missing": ["writing", …], "refused"}
Json EndJson(const ConfinedEnd& end);

// Starts `words` (the first is looked up in PATH unless it holds a slash) and waits. The program's
// descriptor 3 is what was standard output, its own standard output and error are standard error;
// it has no other ones. Only variables of a fixed list are passed on, and the others are wiped from
// this process too; temporary files go to `writable`.
Result<ConfinedEnd> RunConfined(const Confinement& limits, const std::vector<std::string>& words);

// The same for a function of ours that meets hostile data: `call` runs in a forked child, which
// ends with what it returns; an exception that leaves it is a crash (SIGABRT). Of descriptors it
// has the standard streams and `kept`, the others are closed. It must not use threads that ran
// before the fork. It has the memory of this process, so WipeEnvironment() has to come first.
Result<ConfinedEnd> RunConfinedCall(const Confinement& limits, int kept,
                                    const std::function<int()>& call);

// Overwrites the variables that a confined program may not see (tokens, keys) where the kernel and
// this process hold them.
void WipeEnvironment();

}  // namespace mpnanny

#endif  // MPNANNY_BASE_CONFINEMENT_H_
