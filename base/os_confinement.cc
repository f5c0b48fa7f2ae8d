#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <thread>

#include "base/confinement.h"
#include "base/os_confined_calls.h"
#include "base/os_confined_devices.h"
#include "base/os_confined_environment.h"
#include "base/os_confined_group.h"
#include "base/os_confined_self.h"
#include "base/os_confined_view.h"
#include "base/process_table.h"
#include "base/text.h"

namespace mpnanny {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kLookEvery{20};
constexpr milliseconds kKeeperLooksEvery{100};
constexpr int kThreads = 1024;  // of all its processes: the kernel counts threads as processes

volatile std::sig_atomic_t g_asked_to_end = 0;

void AskToEnd(int /*signal*/) { g_asked_to_end = 1; }

// `how`: SIG_BLOCK or SIG_UNBLOCK.
void Block(int signal, int how) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  sigprocmask(how, &set, nullptr);
}

using Limit = decltype(RLIMIT_CORE);  // an enumeration in glibc, int in musl

void SetLimit(int which, rlim_t value) {
  rlimit limit{value, value};
  rlimit now{};
  if (getrlimit(static_cast<Limit>(which), &now) == 0 && now.rlim_max != RLIM_INFINITY) {
    limit.rlim_cur = limit.rlim_max = std::min(value, now.rlim_max);
  }
  setrlimit(static_cast<Limit>(which), &limit);
}

int CodeOf(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

// What the child tells the supervisor before the program starts; one of kLack… or kNoProgram.
using LackBits = uint32_t;
constexpr LackBits kNoProgram = 1u << 31;
LackBits Bit(Lack lack) { return 1u << static_cast<unsigned>(lack); }

struct Started {
  pid_t keeper = -1;
  OwnView view;
  std::vector<Lack> missing;
  bool refused = false;
  bool no_program = false;
  std::unique_ptr<ProcessTable> table;  // of the machine, not of the view
  uint64_t in_memory = 0;               // of the folder's file system, before
  std::unique_ptr<ControlGroup> group;  // null where there can be none
  std::vector<std::string> gpu_files;
};

// What the child has found of itself.
struct OwnLimits {
  bool group = false;
  bool own_processes = false;
  WritingLimits files;
  bool filtered = false;
};

LackBits LacksOf(const Confinement& limits, const OwnView& view, const OwnLimits& held) {
  LackBits lacks = 0;
  if (!held.files.writing) lacks |= Bit(Lack::kWriting);
  if (!held.filtered) lacks |= Bit(Lack::kSystemCalls) | Bit(Lack::kNetwork);
  if (!held.own_processes) lacks |= Bit(Lack::kProcesses);
  if (!view.devices) lacks |= Bit(Lack::kDevices);
  if (!held.group && (!view.devices || !held.filtered)) lacks |= Bit(Lack::kMemory);
  if (limits.gpu) {
    // Sockets may be bound, to names of the machine if there is no other network.
    if (!view.namespaces) lacks |= Bit(Lack::kNetwork);
    // Only the kernel can count all that a driver takes.
    if (!held.group) lacks |= Bit(Lack::kMemory);
  }
  return lacks;
}

// Of these lacks those for which nothing is run. Who allows a GPU allows that its driver takes
// memory for the program.
LackBits Forbidding(const Confinement& limits, LackBits lacks) {
  if (limits.allow_weaker) return 0;
  return limits.gpu ? lacks & ~Bit(Lack::kMemory) : lacks;
}

void LimitResources(const Confinement& limits, bool in_namespaces) {
  SetLimit(RLIMIT_CORE, 1);  // of 0 a crash handler of the machine would still be told
  SetLimit(RLIMIT_FSIZE, limits.file_bytes);
  // It counts what is only reserved as well, and drivers of GPUs reserve all that they may need.
  if (!limits.gpu) SetLimit(RLIMIT_DATA, limits.memory_bytes);
  if (in_namespaces) SetLimit(RLIMIT_NPROC, static_cast<rlim_t>(limits.processes + kThreads));
}

WritablePlaces PlacesOf(const Confinement& limits, const Started& started, bool own_processes) {
  // What is left out shall not keep the program from what it would have had of its own.
  const bool no_namespaces = limits.without == Fence::kNamespaces;
  WritablePlaces places{
      .folder = limits.writable,
      .shared_memory = started.view.devices || no_namespaces || limits.without == Fence::kDevices,
      .devices = {},
      .process_files = ""};
  if (limits.gpu) {
    // libcuda names its threads there, and does not start where it cannot. In the machine's own
    // /proc only this very process may.
    own_processes = own_processes || no_namespaces || limits.without == Fence::kProcesses;
    places.process_files = own_processes ? "/proc" : "/proc/self/task";
  }
  for (const std::string& each : started.gpu_files) places.devices.push_back("/dev/" + each);
  return places;
}

// In the child, before the program or the call.
LackBits ConfineSelf(const Confinement& limits, const Started& started, bool own_processes) {
  const OwnView& view = started.view;
  OwnLimits held;
  held.own_processes = own_processes;
  held.group = started.group && started.group->Enter();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setsid();
  if (limits.without != Fence::kResources) LimitResources(limits, view.namespaces);
  for (const int signal : {SIGTERM, SIGINT, SIGPIPE, SIGHUP}) std::signal(signal, SIG_DFL);
  Block(SIGCHLD, SIG_UNBLOCK);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (limits.without != Fence::kCapabilities) DropCapabilities();
  if (limits.without != Fence::kWriting)
    held.files = WriteOnlyAt(PlacesOf(limits, started, own_processes));
  held.filtered = limits.without != Fence::kSystemCalls &&
                  RefuseSystemCalls({.metadata = !view.read_only,
                                     .truncation = !view.read_only && !held.files.truncation,
                                     .gpu = limits.gpu});
  return LacksOf(limits, view, held);
}

// Everything that is left of it. In a namespace of its own the kernel has done that already.
void EndAll(const ProcessTable& table) {
  for (int round = 0; round < 500; ++round) {
    const std::vector<int> left = table.DescendantsOf(getpid(), 100'000);
    for (const int each : left) kill(each, SIGKILL);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (left.empty()) return;
    std::this_thread::sleep_for(milliseconds(2));
  }
}

// Until a child has ended, we are asked to end, or the time has passed.
void WaitForChild(milliseconds most) {
  sigset_t ended;
  sigemptyset(&ended);
  sigaddset(&ended, SIGCHLD);
  const timespec time{0, std::chrono::nanoseconds(most).count()};
  sigtimedwait(&ended, nullptr, &time);
}

// The keeper: ends with the program's exit code, and ends the program when the supervisor is gone.
// `supervisor`: a pipe that only that one can write to. The program can neither trace the keeper
// nor, being in its PID namespace or in a Landlock domain, end it.
[[noreturn]] void Keep(pid_t program, int supervisor, bool in_namespaces) {
  CloseAllBut({supervisor});
  close(STDIN_FILENO);
  close(STDOUT_FILENO);
  while (true) {
    int status = 0;
    for (pid_t ended = 0; (ended = waitpid(-1, &status, WNOHANG)) > 0;) {
      if (ended == program) _exit(CodeOf(status));
    }
    pollfd end{supervisor, 0, 0};
    if (poll(&end, 1, 0) > 0 && (end.revents & (POLLHUP | POLLERR)) != 0) {
      if (!in_namespaces) EndAll(ProcessTable());  // else they end with us
      _exit(1);
    }
    WaitForChild(kKeeperLooksEvery);
  }
}

struct Pipe {
  int read = -1;
  int write = -1;
};

Result<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Unavailable(std::strerror(errno));
  return Pipe{ends[0], ends[1]};
}

// In the keeper. `told`: from the program's process to the supervisor; `alive`: open while that is.
[[noreturn]] void StartBelowKeeper(const Confinement& limits, const Started& started, Pipe told,
                                   Pipe alive, const std::function<int(int told)>& body) {
  const bool in_namespaces = started.view.namespaces;
  close(told.read);
  close(alive.write);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) std::signal(signal, SIG_IGN);
  setsid();
  if (in_namespaces) prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const bool own_processes =
      in_namespaces && limits.without != Fence::kProcesses && MountOwnProcesses(limits.gpu);
  const pid_t program = fork();
  if (program < 0) _exit(126);
  if (program > 0) {
    close(told.write);
    Keep(program, alive.read, in_namespaces);
  }
  close(alive.read);
  const LackBits lacks = ConfineSelf(limits, started, own_processes);
  if (write(told.write, &lacks, sizeof lacks) != sizeof lacks) _exit(126);
  if (Forbidding(limits, lacks) != 0) _exit(126);
  _exit(body(told.write));
}

// Forks; the child confines itself and, if what lacks is allowed, ends with what `body(told)`
// returns.
Result<Started> Start(const Confinement& limits, const std::function<int(int told)>& body) {
  Started started;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  MPN_TRY_ASSIGN(const auto told, MakePipe());
  MPN_TRY_ASSIGN(const auto alive, MakePipe());
  started.table = std::make_unique<ProcessTable>();
  started.group = ControlGroup::Create(limits.memory_bytes, limits.processes + kThreads);
  if (limits.gpu) started.gpu_files = GpuFiles("/dev");
  started.view = EnterOwnView({.writable = limits.writable,
                               .shared_memory_bytes = limits.memory_bytes / 2,
                               .gpu_files = started.gpu_files,
                               .without = limits.without});
  started.in_memory = BytesInMemory(limits.writable);
  prctl(PR_SET_DUMPABLE, 0);  // its memory and environment cannot be read; after the user's mapping
  started.keeper = fork();
  if (started.keeper < 0) return Unavailable(std::string("fork: ") + std::strerror(errno));
  if (started.keeper == 0) StartBelowKeeper(limits, started, told, alive, body);
  close(told.write);
  close(alive.read);
  LackBits lacks = 0;
  const bool ready = read(told.read, &lacks, sizeof lacks) == sizeof lacks;
  for (const LackName& each : LackNames()) {
    if ((lacks & Bit(each.lack)) != 0) started.missing.push_back(each.lack);
  }
  started.refused = Forbidding(limits, lacks) != 0;
  LackBits failed = 0;  // nothing comes where the program has started
  started.no_program = ready && read(told.read, &failed, sizeof failed) == sizeof failed;
  close(told.read);
  if (!ready || started.refused) {
    kill(started.keeper, SIGKILL);
    waitpid(started.keeper, nullptr, 0);
    EndAll(*started.table);
  }
  if (!ready) return Unavailable("The process could not be made.");
  return started;  // the other pipe stays open: its end is the keeper's sign that we are gone
}

Result<Started> StartProgram(const Confinement& limits, const std::vector<std::string>& words) {
  std::vector<std::string> argument_copies = words;
  std::vector<char*> argv;
  for (std::string& each : argument_copies) argv.push_back(each.data());
  argv.push_back(nullptr);
  std::vector<std::string> kept = PassedOnEnvironment(limits.writable);
  WipeEnvironment();
  std::vector<char*> variables;
  for (std::string& each : kept) variables.push_back(each.data());
  variables.push_back(nullptr);
  auto started = Start(limits, [&](int told) {
    const int high = fcntl(told, F_DUPFD_CLOEXEC, 10);
    dup2(STDOUT_FILENO, 3);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    CloseAllBut({3, high});
    execvpe(argv[0], argv.data(), variables.data());
    return write(high, &kNoProgram, sizeof kNoProgram) == sizeof kNoProgram ? 127 : 126;
  });
  if (started && started->no_program) {
    waitpid(started->keeper, nullptr, 0);
    return NotFound("There is no program " + EscapeControl(words.front(), 300) + ".");
  }
  return started;
}

// Of all its processes, their shared memory, and the folder where that lies in memory.
uint64_t HeldBytes(const Confinement& limits, const Started& started,
                   const std::vector<int>& processes) {
  uint64_t bytes = started.view.devices ? BytesInMemory("/dev/shm") : 0;
  const uint64_t in_memory = BytesInMemory(limits.writable);
  bytes += in_memory - std::min(in_memory, started.in_memory);
  for (const int each : processes) bytes += started.table->OwnBytes(each);
  if (limits.gpu) bytes += started.table->SharedBytes(processes);
  return bytes;
}

// The limit that is exceeded now, or "".
std::string Exceeded(const Confinement& limits, const Started& started, Clock::time_point until) {
  if (Clock::now() >= until) return "time";
  // Ours, not the keeper's: without namespaces what lost its parent may become our child.
  std::vector<int> processes = started.table->DescendantsOf(getpid(), limits.processes + 1);
  std::erase(processes, started.keeper);
  if (processes.size() > static_cast<size_t>(limits.processes)) return "processes";
  return HeldBytes(limits, started, processes) > limits.memory_bytes ? "memory" : "";
}

ConfinedEnd Watch(const Confinement& limits, const Started& started) {
  close(STDIN_FILENO);
  ConfinedEnd end;
  end.missing = started.missing;
  end.refused = started.refused;
  if (started.refused) return end;
  const auto until = Clock::now() + limits.wall;
  int status = 0;
  while (waitpid(started.keeper, &status, WNOHANG) != started.keeper) {
    end.exceeded = Exceeded(limits, started, until);
    if (!end.exceeded.empty() || g_asked_to_end != 0) {
      kill(started.keeper, SIGKILL);
      waitpid(started.keeper, &status, 0);
      break;
    }
    WaitForChild(kLookEvery);
  }
  EndAll(*started.table);
  if (end.exceeded.empty() && started.group && started.group->WasOutOfMemory())
    end.exceeded = "memory";
  end.exit_code = CodeOf(status);
  return end;
}

void BecomeSupervisor() {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) std::signal(signal, AskToEnd);
  std::signal(SIGPIPE, SIG_IGN);
  Block(SIGCHLD, SIG_BLOCK);
}

}  // namespace

Result<ConfinedEnd> RunConfined(const Confinement& limits, const std::vector<std::string>& words) {
  BecomeSupervisor();
  MPN_TRY_ASSIGN(const auto started, StartProgram(limits, words));
  return Watch(limits, started);
}

Result<ConfinedEnd> RunConfinedCall(const Confinement& limits, int kept,
                                    const std::function<int()>& call) {
  BecomeSupervisor();
  // noexcept: an exception would go on in the code of whoever called us, as a second process.
  MPN_TRY_ASSIGN(const auto started, Start(limits, [&](int /*told*/) noexcept {
                   CloseAllBut({kept});
                   return call();
                 }));
  return Watch(limits, started);
}

}  // namespace mpnanny
