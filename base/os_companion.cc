#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/companion.h"
#include "base/text.h"

namespace mpnanny {
namespace {

constexpr std::chrono::milliseconds kStep{20};

// The terminal sends these to the whole group, the program among it; from a process they are handed
// on as the others are.
constexpr int kShared[] = {SIGINT, SIGQUIT};
// These are sent to a process, and it is the program that is meant.
constexpr int kHandedOn[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

std::atomic<pid_t> g_program{0};
std::atomic<bool> g_asked_to_end{false};

void HandOn(int signal, siginfo_t* from, void*) {
  const bool of_terminal = from->si_code > 0 && (signal == SIGINT || signal == SIGQUIT);
  if (of_terminal && g_program.load() > 0) return;
  const int saved = errno;
  const pid_t program = g_program.load();
  if (program > 0) {
    kill(program, signal);
  } else {
    g_asked_to_end.store(true);
  }
  errno = saved;
}

void DieWithParent(int signal, pid_t parent) {
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, signal);
  if (getppid() != parent) _exit(127);  // it was dead before that was said
#else
  (void)signal;
  (void)parent;
#endif
}

std::vector<char*> Arguments(std::vector<std::string>& copies) {
  std::vector<char*> argv;
  for (std::string& word : copies) argv.push_back(word.data());
  argv.push_back(nullptr);
  return argv;
}

// In the child: becomes the program, or tells why not.
[[noreturn]] void Become(char* const* argv, int report) {
  execvp(argv[0], argv);
  const int failure = errno;
  [[maybe_unused]] const ssize_t told = write(report, &failure, sizeof failure);
  _exit(127);
}

// Zero, or why the child could not become the program. Waits until it has.
int Failure(int report) {
  int failure = 0;
  ssize_t got = 0;
  do {
    got = read(report, &failure, sizeof failure);
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(sizeof failure) ? failure : 0;
}

Error NotStarted(const std::string& program, int failure) {
  const std::string text = EscapeControl(program, 300) + ": " + std::strerror(failure) + ".";
  return failure == ENOENT ? NotFound(text, "Is it in PATH?") : InvalidInput(text);
}

struct ReportPipe {
  int read = -1, write = -1;
  ReportPipe() {
    int made[2] = {-1, -1};
    if (pipe(made) != 0) return;
    read = fcntl(made[0], F_DUPFD_CLOEXEC, 3);
    write = fcntl(made[1], F_DUPFD_CLOEXEC, 3);
    close(made[0]);
    close(made[1]);
  }
  ~ReportPipe() {
    if (read >= 0) close(read);
    CloseWrite();
  }
  void CloseWrite() {
    if (write >= 0) close(write);
    write = -1;
  }
};

}  // namespace

Result<Companion> Companion::Start(const std::vector<std::string>& words) {
  std::vector<std::string> copies = words;
  const std::vector<char*> argv = Arguments(copies);
  ReportPipe report;
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0 || report.read < 0) return Unavailable("No process or descriptor is left.");
  if (pid == 0) {
    setpgid(0, 0);
    DieWithParent(SIGTERM, parent);
    const int nothing = open("/dev/null", O_RDWR);
    if (nothing >= 0) dup2(nothing, STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    Become(argv.data(), report.write);
  }
  setpgid(pid, pid);
  report.CloseWrite();
  if (const int failure = Failure(report.read)) {
    waitpid(pid, nullptr, 0);
    return NotStarted(words.front(), failure);
  }
  return Companion(pid);
}

Companion::~Companion() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool Companion::End(std::chrono::milliseconds most) {
  if (pid_ <= 0) return true;
  kill(pid_, SIGTERM);
  const auto until = std::chrono::steady_clock::now() + most;
  while (std::chrono::steady_clock::now() < until && !g_asked_to_end.load()) {
    if (waitpid(pid_, nullptr, WNOHANG) != 0) {
      pid_ = -1;
      return true;
    }
    std::this_thread::sleep_for(kStep);
  }
  return false;
}

Result<HowItEnded> RunInPlace(const std::vector<std::string>& words,
                              const std::vector<std::pair<std::string, std::string>>& variables,
                              const std::string& process_variable) {
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  std::vector<std::string> copies = words;
  const std::vector<char*> argv = Arguments(copies);
  ReportPipe report;
  if (report.read < 0) return Unavailable("No descriptor is left.");
  sigset_t taken, before;
  sigemptyset(&taken);
  for (const int signal : kShared) sigaddset(&taken, signal);
  for (const int signal : kHandedOn) sigaddset(&taken, signal);
  // One that comes before the program is there waits until it is.
  sigprocmask(SIG_BLOCK, &taken, &before);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    const int failure = errno;
    sigprocmask(SIG_SETMASK, &before, nullptr);
    return NotStarted(words.front(), failure);
  }
  if (pid == 0) {
    setenv(process_variable.c_str(), std::to_string(getpid()).c_str(), 1);
    DieWithParent(SIGKILL, parent);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    Become(argv.data(), report.write);
  }
  g_program.store(pid);
  struct sigaction action {};
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  action.sa_sigaction = HandOn;
  const auto take = [&](int signal) {
    struct sigaction earlier {};
    sigaction(signal, nullptr, &earlier);
    if (earlier.sa_handler == SIG_IGN) return;  // as nohup has it: of the program as well
    sigaction(signal, &action, nullptr);
  };
  for (const int signal : kShared) take(signal);
  for (const int signal : kHandedOn) take(signal);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  report.CloseWrite();
  const int failure = Failure(report.read);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  g_program.store(0);
  if (failure != 0) return NotStarted(words.front(), failure);
  HowItEnded ended;
  if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
  if (WIFEXITED(status)) ended.exit_code = WEXITSTATUS(status);
  return ended;
}

int EndAs(const HowItEnded& ended) {
  if (ended.signal == 0) return ended.exit_code;
  const rlimit none{0, 0};  // the program has left its core already
  setrlimit(RLIMIT_CORE, &none);
  std::signal(ended.signal, SIG_DFL);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, ended.signal);
  sigprocmask(SIG_UNBLOCK, &one, nullptr);
  raise(ended.signal);
  return 128 + ended.signal;
}

}  // namespace mpnanny
