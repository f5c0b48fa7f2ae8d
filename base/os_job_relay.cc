#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <string_view>

#include "base/descriptors.h"
#include "base/job_relay.h"
#include "base/stop_event.h"

namespace mpnanny {
namespace {

constexpr int kLookEveryMs = 50;
// Of what is left in the pipe when the job has ended: more than a pipe holds comes from somebody
// who goes on writing.
constexpr size_t kMostLeft = 2u << 20;

struct Pipe {
  int read = -1;
  int write = -1;

  bool Open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    read = ends[0];
    write = ends[1];
    return true;
  }
};

// The job's lines on their way out, each with the mark.
class Marked {
 public:
  explicit Marked(int out) : out_(out) {}

  bool Pass(std::string_view piece) {
    std::string text;
    text.reserve(piece.size() + 64);
    for (const char each : piece) {
      if (at_start_) text += kJobMark;
      text += each;
      at_start_ = each == '\n';
    }
    return WriteWhole(out_, text, never_);
  }
  bool End(const Json& end) {
    return WriteWhole(out_, (at_start_ ? "" : "\n") + DumpJson(Json{{"end", end}}) + "\n", never_);
  }

 private:
  int out_;
  bool at_start_ = true;
  const StopEvent never_;
};

// Up to what is there now. kEnd: nobody can write any more.
ReadStatus Take(int fd, std::string& text) {
  std::array<char, 1 << 16> chunk;
  const ssize_t got = read(fd, chunk.data(), chunk.size());
  if (got > 0) text.append(chunk.data(), static_cast<size_t>(got));
  if (got > 0) return ReadStatus::kData;
  return got == 0 || (errno != EINTR && errno != EAGAIN) ? ReadStatus::kEnd : ReadStatus::kStopped;
}

// Until the supervisor's line is whole or it has ended; false if nobody reads what is passed on.
bool Listen(pid_t supervisor, int job, int own, int out, Marked& marked, std::string& said) {
  bool goes_on = true;
  int status = 0;
  while (goes_on && said.find('\n') == std::string::npos) {
    pollfd ready[3] = {{job, POLLIN, 0}, {own, POLLIN, 0}, {out, 0, 0}};
    poll(ready, 3, kLookEveryMs);
    if (ready[2].revents != 0) return false;
    if (ready[0].revents != 0) {
      std::string piece;
      if (Take(job, piece) == ReadStatus::kEnd) job = -1;  // poll() leaves it out
      if (!marked.Pass(piece)) return false;
    }
    if (ready[1].revents != 0) goes_on = Take(own, said) != ReadStatus::kEnd;
    // Others may have its end of the pipe still, as what it has started.
    if (ready[1].revents == 0 && waitpid(supervisor, &status, WNOHANG | WNOWAIT) == supervisor)
      goes_on = false;
  }
  for (size_t left = 0; job >= 0 && left < kMostLeft;) {
    std::string piece;
    if (Take(job, piece) != ReadStatus::kData) break;
    if (!marked.Pass(piece)) return false;
    left += piece.size();
  }
  return true;
}

Json EndOf(const std::string& said, int status) {
  auto end = ParseJson(said);
  if (end && end->is_object() && said.ends_with('\n')) return *std::move(end);
  const std::string how = WIFSIGNALED(status)
                              ? "was ended by signal " + std::to_string(WTERMSIG(status))
                              : "ended with " + std::to_string(WEXITSTATUS(status));
  return {{"error", "The process that watches over the code " + how + "."}};
}

}  // namespace

bool RelayJob(int out, StandardStreams streams, const std::function<Json(int told)>& supervise) {
  Marked marked(out);
  Pipe job, own;
  if (!job.Open() || !own.Open()) return marked.End({{"error", std::strerror(errno)}});
  const pid_t supervisor = fork();
  if (supervisor == 0) {
    close(job.read);
    close(own.read);
    if (streams == StandardStreams::kOfTheJob) dup2(job.write, STDOUT_FILENO);
    // noexcept: an exception would go on in the code of whoever called us, as a second process.
    const Json end = [&]() noexcept { return supervise(job.write); }();
    const StopEvent never;
    _exit(WriteWhole(own.write, DumpJson(end) + "\n", never) ? 0 : 1);
  }
  const int error = errno;
  close(job.write);
  close(own.write);
  if (streams == StandardStreams::kOfTheJob) {
    close(STDIN_FILENO);
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // then the supervisor is asked to end in the same way
  }
  bool heard = true;
  int status = 0;
  std::string said;
  if (supervisor > 0) {
    fcntl(job.read, F_SETFL, O_NONBLOCK);
    heard = Listen(supervisor, job.read, own.read, out, marked, said);
    if (!heard) kill(supervisor, SIGTERM);
    while (waitpid(supervisor, &status, 0) < 0 && errno == EINTR) {
    }
  }
  close(job.read);
  close(own.read);
  if (!heard) return false;
  return marked.End(supervisor < 0 ? Json{{"error", std::strerror(error)}} : EndOf(said, status));
}

}  // namespace mpnanny
