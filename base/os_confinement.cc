#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

#include "base/confinement.h"
#include "base/os_confined_self.h"
#include "base/process_tree.h"
#include "base/text.h"

extern char** environ;

namespace mpnanny {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kLookEvery{20};
constexpr rlim_t kThreads = 1024;  // of all its processes: the kernel counts threads as processes

volatile std::sig_atomic_t g_asked_to_end = 0;

void AskToEnd(int /*signal*/) { g_asked_to_end = 1; }

// `how`: SIG_BLOCK or SIG_UNBLOCK.
void Block(int signal, int how) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  sigprocmask(how, &set, nullptr);
}

// What a program of the user's needs to find its libraries and devices; tokens, keys and all the
// rest stay behind.
bool IsPassedOn(std::string_view variable) {
  constexpr std::array<std::string_view, 16> kNames = {
      "PATH",       "HOME",    "USER",           "LANG",         "LANGUAGE",
      "TZ",         "TERM",    "VIRTUAL_ENV",    "CONDA_PREFIX", "PYTHONPATH",
      "PYTHONHOME", "HF_HOME", "HF_HUB_OFFLINE", "TORCH_HOME",   "LD_LIBRARY_PATH",
      "SYSTEMROOT"};
  constexpr std::array<std::string_view, 7> kFamilies = {"LC_",  "CUDA_", "NVIDIA_", "OMP_",
                                                         "MKL_", "HIP_",  "ROCR_"};
  const std::string_view name = variable.substr(0, variable.find('='));
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() ||
         std::any_of(kFamilies.begin(), kFamilies.end(),
                     [&](std::string_view family) { return name.starts_with(family); });
}

std::vector<std::string> PassedOn(const std::string& writable) {
  std::vector<std::string> variables;
  for (char** each = environ; *each != nullptr; ++each) {
    if (IsPassedOn(*each)) variables.emplace_back(*each);
  }
  for (const char* name : {"TMPDIR", "XDG_CACHE_HOME", "MPLCONFIGDIR", "TORCHINDUCTOR_CACHE_DIR"}) {
    variables.push_back(std::string(name) + "=" + writable);
  }
  variables.emplace_back("PYTHONDONTWRITEBYTECODE=1");
  return variables;
}

bool WriteWhole(const char* path, const std::string& text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(file);
  return written;
}

// Processes and network of its own: all processes end with the first, and there is nobody to
// connect to. False where the kernel or the machine's rules do not allow it.
bool EnterNamespaces() {
  const std::string user = std::to_string(getuid());
  const std::string group = std::to_string(getgid());
  if (unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET) != 0) return false;
  WriteWhole("/proc/self/setgroups", "deny");
  WriteWhole("/proc/self/uid_map", user + " " + user + " 1");
  WriteWhole("/proc/self/gid_map", group + " " + group + " 1");
  return true;
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

struct Started {
  pid_t process = -1;
  bool in_namespaces = false;
  uint8_t cut = 0;  // what the child could not do: see kUncut…
};
constexpr uint8_t kUncutWriting = 1;
constexpr uint8_t kUncutNetwork = 2;
constexpr uint8_t kNoProgram = 4;

// In the child, before the program or the call.
void ConfineSelf(const Confinement& limits, bool in_namespaces, int told) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_DUMPABLE, 0);
  setsid();
  SetLimit(RLIMIT_CORE, 0);
  SetLimit(RLIMIT_FSIZE, limits.file_bytes);
  SetLimit(RLIMIT_DATA, limits.memory_bytes);
  if (in_namespaces) SetLimit(RLIMIT_NPROC, static_cast<rlim_t>(limits.processes) + kThreads);
  for (const int signal : {SIGTERM, SIGINT, SIGPIPE, SIGHUP}) std::signal(signal, SIG_DFL);
  Block(SIGCHLD, SIG_UNBLOCK);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  uint8_t cut = 0;
  if (!WriteOnlyBelow(limits.writable)) cut |= kUncutWriting;
  if (!CutNetwork()) cut |= kUncutNetwork;
  if (write(told, &cut, 1) != 1) _exit(127);
}

// Forks; the child confines itself and then ends with what `body(told)` returns.
Result<Started> Start(const Confinement& limits, const std::function<int(int told)>& body) {
  Started started;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) return Unavailable(std::strerror(errno));
  started.in_namespaces = EnterNamespaces();
  started.process = fork();
  if (started.process < 0) return Unavailable(std::string("fork: ") + std::strerror(errno));
  if (started.process == 0) {
    ConfineSelf(limits, started.in_namespaces, pipe_ends[1]);
    _exit(body(pipe_ends[1]));
  }
  close(pipe_ends[1]);
  uint8_t cut = 0;
  while (read(pipe_ends[0], &cut, 1) == 1) started.cut |= cut;
  close(pipe_ends[0]);
  return started;
}

Result<Started> StartProgram(const Confinement& limits, const std::vector<std::string>& words) {
  std::vector<std::string> argument_copies = words;
  std::vector<char*> argv;
  for (std::string& each : argument_copies) argv.push_back(each.data());
  argv.push_back(nullptr);
  std::vector<std::string> kept = PassedOn(limits.writable);
  std::vector<char*> variables;
  for (std::string& each : kept) variables.push_back(each.data());
  variables.push_back(nullptr);
  auto started = Start(limits, [&](int told) {
    dup2(STDOUT_FILENO, 3);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execvpe(argv[0], argv.data(), variables.data());
    const uint8_t cut = kNoProgram;
    return write(told, &cut, 1) == 1 ? 127 : 126;
  });
  if (started && (started->cut & kNoProgram) != 0) {
    waitpid(started->process, nullptr, 0);
    return NotFound("There is no program " + EscapeControl(words.front(), 300) + ".");
  }
  return started;
}

// Everything that is left of it. In a namespace of its own the kernel has done that already.
void EndAll() {
  for (int round = 0; round < 500; ++round) {
    const ProcessTree left = DescendantsOf(getpid(), 100'000);
    for (const int each : left.processes) kill(each, SIGKILL);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (left.processes.empty()) return;
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

ConfinedEnd Watch(const Confinement& limits, const Started& started) {
  close(STDIN_FILENO);
  ConfinedEnd end;
  if ((started.cut & kUncutWriting) != 0) end.missing.emplace_back("writing");
  if ((started.cut & kUncutNetwork) != 0 && !started.in_namespaces) {
    end.missing.emplace_back("network");
  }
  const auto until = Clock::now() + limits.wall;
  int status = 0;
  while (true) {
    const pid_t ended = waitpid(started.process, &status, WNOHANG);
    if (ended == started.process) break;
    // Ours, not its own: without namespaces what lost its parent becomes our child.
    const ProcessTree tree = DescendantsOf(getpid(), limits.processes);
    if (Clock::now() >= until) {
      end.exceeded = "time";
    } else if (tree.processes.size() > static_cast<size_t>(limits.processes)) {
      end.exceeded = "processes";
    } else if (tree.resident_bytes > limits.memory_bytes) {
      end.exceeded = "memory";
    }
    if (!end.exceeded.empty() || g_asked_to_end != 0) {
      kill(started.process, SIGKILL);
      waitpid(started.process, &status, 0);
      break;
    }
    WaitForChild(kLookEvery);
  }
  EndAll();
  end.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return end;
}

void BecomeSupervisor() {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) std::signal(signal, AskToEnd);
  Block(SIGCHLD, SIG_BLOCK);
}

// The first process of a namespace is not ended by the signals of a crash, as abort() sends one,
// unless it has asked for them.
void EndOnCrashes() {
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    std::signal(signal, [](int number) { _exit(128 + number); });
  }
}

// The standard streams stay as well.
void CloseAllBut(int kept) {
  std::vector<int> open;
  if (DIR* const own = opendir("/proc/self/fd")) {
    while (const dirent* each = readdir(own)) open.push_back(std::atoi(each->d_name));
    closedir(own);
  }
  for (const int each : open) {
    if (each > STDERR_FILENO && each != kept) close(each);
  }
}

}  // namespace

Result<ConfinedEnd> RunConfined(const Confinement& limits, const std::vector<std::string>& words) {
  BecomeSupervisor();
  const auto started = StartProgram(limits, words);
  if (!started) return started.error();
  return Watch(limits, *started);
}

Result<ConfinedEnd> RunConfinedCall(const Confinement& limits, int kept,
                                    const std::function<int()>& call) {
  BecomeSupervisor();
  // noexcept: an exception would go on in the code of whoever called us, as a second process.
  const auto started = Start(limits, [&](int /*told*/) noexcept {
    CloseAllBut(kept);
    EndOnCrashes();
    return call();
  });
  if (!started) return started.error();
  return Watch(limits, *started);
}

Result<int> RunForked(const std::function<int(int told)>& call,
                      const std::function<void(int heard)>& listen) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Unavailable(std::strerror(errno));
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    _exit([&]() noexcept { return call(ends[1]); }());  // as above
  }
  close(ends[1]);
  if (child > 0) listen(ends[0]);
  close(ends[0]);
  if (child < 0) return Unavailable("There can be no further process.");
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace mpnanny
