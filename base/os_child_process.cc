#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/child_process.h"
#include "base/text.h"

extern char** environ;

namespace mpnanny {
namespace {

using Clock = ChildProcess::Clock;
using std::chrono::milliseconds;

constexpr milliseconds kEndGrace{300};  // between SIGTERM and SIGKILL
constexpr milliseconds kWaitStep{20};
#ifdef MSG_NOSIGNAL
constexpr int kSendFlags = MSG_NOSIGNAL;
#else
constexpr int kSendFlags = 0;  // the socket has SO_NOSIGPIPE
#endif

int Remaining(Clock::time_point until) {
  const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000));
}

// A descriptor out of the way of the standard streams that no other child inherits.
int MoveUp(int fd) {
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  close(fd);
  return moved;
}

struct Ends {
  int read = -1;
  int write = -1;
};

// A socket pair instead of a pipe where we write: send() can do without SIGPIPE.
bool MakeEnds(bool for_writing, Ends& ends) {
  int made[2];
  if ((for_writing ? socketpair(AF_UNIX, SOCK_STREAM, 0, made) : pipe(made)) != 0) return false;
  ends = {MoveUp(made[0]), MoveUp(made[1])};
#ifdef SO_NOSIGPIPE
  const int on = 1;
  if (for_writing) setsockopt(ends.write, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof(on));
#endif
  return ends.read >= 0 && ends.write >= 0;
}

std::vector<std::string> EnvironmentWith(const std::vector<EnvironmentChange>& changes) {
  std::vector<std::string> variables;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view variable = *each;
    const std::string_view name = variable.substr(0, variable.find('='));
    const bool changed = std::any_of(changes.begin(), changes.end(),
                                     [&](const auto& change) { return change.name == name; });
    if (!changed) variables.emplace_back(variable);
  }
  for (const EnvironmentChange& change : changes) {
    if (change.value) variables.push_back(change.name + "=" + *change.value);
  }
  return variables;
}

void Close(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

// posix_spawn's own objects, freed in any case.
class SpawnSettings {
 public:
  SpawnSettings() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    sigset_t all;
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

}  // namespace

ChildProcess::ChildProcess(int pid, int in, int out, int err)
    : pid_(pid), in_(in), out_(out), err_(err) {
  fcntl(in_, F_SETFL, O_NONBLOCK);
  fcntl(out_, F_SETFL, O_NONBLOCK);
  fcntl(err_, F_SETFL, O_NONBLOCK);
}

Result<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    const std::vector<std::string>& words, const std::vector<EnvironmentChange>& changes) {
  Ends in;
  Ends out;
  Ends err;
  int failure = EMFILE;
  pid_t pid = -1;
  if (MakeEnds(true, in) && MakeEnds(false, out) && MakeEnds(false, err)) {
    SpawnSettings settings;
    posix_spawn_file_actions_adddup2(&settings.actions, in.read, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&settings.actions, out.write, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&settings.actions, err.write, STDERR_FILENO);
    std::vector<std::string> copies = words;
    std::vector<char*> argv;
    for (std::string& word : copies) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::vector<std::string> variables = EnvironmentWith(changes);
    std::vector<char*> envp;
    for (std::string& variable : variables) envp.push_back(variable.data());
    envp.push_back(nullptr);
    failure = posix_spawnp(&pid, argv[0], &settings.actions, &settings.attributes, argv.data(),
                           envp.data());
  }
  Close(in.read);
  Close(out.write);
  Close(err.write);
  if (failure == 0) {
    return std::unique_ptr<ChildProcess>(new ChildProcess(pid, in.write, out.read, err.read));
  }
  Close(in.write);
  Close(out.read);
  Close(err.read);
  const std::string text = EscapeControl(words.front(), 300) + ": " + std::strerror(failure) + ".";
  if (failure == ENOENT) return NotFound(text);
  return failure == EMFILE || failure == EAGAIN ? Unavailable(text) : InvalidInput(text);
}

ChildProcess::~ChildProcess() {
  CloseInput();
  if (!Wait(Clock::now())) {
    kill(-pid_, SIGTERM);
    Wait(Clock::now() + kEndGrace);
  }
  kill(-pid_, SIGKILL);  // what it left behind, too
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  Close(out_);
  Close(err_);
}

bool ChildProcess::WriteLine(std::string_view line, Clock::time_point until) {
  std::string whole(line);
  whole += '\n';
  for (std::string_view bytes = whole; !bytes.empty();) {
    if (in_ < 0) return false;
    const ssize_t n = send(in_, bytes.data(), bytes.size(), kSendFlags);
    if (n >= 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd writable{in_, POLLOUT, 0};
      TakeErrors();  // else a program that waits for us to read could not read
      if (poll(&writable, 1, std::min<int>(Remaining(until), kWaitStep.count())) < 0 &&
          errno != EINTR) {
        return false;
      }
      if (Clock::now() >= until) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

void ChildProcess::CloseInput() { Close(in_); }

void ChildProcess::TakeErrors() {
  // More than a pipe holds, so that all is taken of a program that has ended; yet not without end
  // from one that never pauses: callers have deadlines.
  constexpr size_t kMostAtOnce = 2u << 20;
  std::array<char, 4096> buffer;
  for (size_t taken = 0; err_ >= 0 && taken < kMostAtOnce; taken += buffer.size()) {
    const ssize_t n = read(err_, buffer.data(), buffer.size());
    if (n > 0) {
      errors_.append(buffer.data(), static_cast<size_t>(n));
      if (errors_.size() > 2 * kMostErrorBytes) {
        errors_.erase(0, errors_.size() - kMostErrorBytes);
      }
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
      Close(err_);
    } else if (errno == EAGAIN) {
      return;
    }
  }
}

// Waits until stdout has something to say, taking stderr on the way; false at `until`.
bool ChildProcess::WaitForOutput(Clock::time_point until) {
  while (Clock::now() < until) {
    std::array<pollfd, 2> fds = {pollfd{out_, POLLIN, 0}, pollfd{err_, POLLIN, 0}};
    const int ready = poll(fds.data(), fds.size(), Remaining(until));
    if (ready < 0 && errno != EINTR) return false;
    TakeErrors();
    if (ready > 0 && fds[0].revents != 0) return true;
  }
  return false;
}

ChildProcess::Line ChildProcess::ReadLine(Clock::time_point until) {
  size_t searched = 0;
  while (true) {
    if (const size_t newline = partial_.find('\n', searched); newline != std::string::npos) {
      std::string line = partial_.substr(0, newline);
      partial_.erase(0, newline + 1);
      return {ReadStatus::kLine, std::move(line)};
    }
    searched = partial_.size();
    if (partial_.size() > kMostLineBytes) return {ReadStatus::kTooLong, partial_.substr(0, 1000)};
    if (out_ < 0) {
      TakeErrors();
      return {ReadStatus::kEnd, std::exchange(partial_, {})};
    }
    if (!WaitForOutput(until)) return {ReadStatus::kTimeout, partial_};
    std::array<char, 64u << 10> buffer;
    const ssize_t n = read(out_, buffer.data(), buffer.size());
    if (n > 0) {
      partial_.append(buffer.data(), static_cast<size_t>(n));
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
      Close(out_);
    }
  }
}

std::optional<int> ChildProcess::Wait(Clock::time_point until) {
  while (!exit_code_) {
    TakeErrors();
    // Seen but not reaped: as long as it is a zombie its number is not given to a stranger, whose
    // group the destructor would end.
    siginfo_t end{};
    if (waitid(P_PID, static_cast<id_t>(pid_), &end, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        end.si_pid == pid_) {
      exit_code_ = end.si_code == CLD_EXITED ? end.si_status : 128 + end.si_status;
      TakeErrors();
    } else if (Clock::now() >= until) {
      return std::nullopt;
    } else {
      pollfd more{err_, POLLIN, 0};  // wakes early where it says something; -1 only waits
      poll(&more, 1, std::min<int>(Remaining(until), kWaitStep.count()));
    }
  }
  return exit_code_;
}

}  // namespace mpnanny
