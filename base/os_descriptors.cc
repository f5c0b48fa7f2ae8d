#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/descriptors.h"

namespace mpnanny {
namespace {

// poll() promises that a pipe which is ready takes this much without blocking (POSIX: PIPE_BUF, at
// least 512; 4096 on Linux, 512 on macOS).
constexpr size_t kSafeChunk = PIPE_BUF;
constexpr int kStoppedGraceMs = 200;
#ifdef MSG_NOSIGNAL
constexpr int kSendFlags = MSG_DONTWAIT | MSG_NOSIGNAL;
#else
constexpr int kSendFlags = MSG_DONTWAIT;  // servers ignore SIGPIPE (StopEvent::BindSignals)
#endif

// Points `fd` at /dev/null.
bool Silence(int fd, int flags) {
  const int null = open("/dev/null", flags);
  if (null == fd) return true;
  const bool done = null >= 0 && dup2(null, fd) >= 0;
  if (null >= 0) close(null);
  return done;
}

// Waits until `fd` takes bytes. False if nobody will take them any more.
bool WaitWritable(int fd, const StopEvent& stop) {
  while (true) {
    pollfd fds[2] = {{fd, POLLOUT, 0}, {stop.fd(), POLLIN, 0}};
    const bool stopped = stop.requested();
    const int ready = poll(fds, stopped ? 1 : 2, stopped ? kStoppedGraceMs : -1);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return false;
    if (fds[0].revents & POLLOUT) return true;
    if (fds[0].revents & (POLLERR | POLLHUP | POLLNVAL)) return false;
    if (stopped) return false;
  }
}

}  // namespace

Result<ProtocolStreams> TakeStandardStreams() {
  ProtocolStreams streams;
  streams.in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
  streams.out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (streams.in < 0 || streams.out < 0) {
    return Unavailable("stdin or stdout is closed.",
                       "An MCP client starts the server with both as pipes.");
  }
  // A closed stderr is opened: else the next file to be opened would get its number, and the log.
  const bool has_log = fcntl(STDERR_FILENO, F_GETFD) != -1 || Silence(STDERR_FILENO, O_WRONLY);
  if (!has_log || !Silence(STDIN_FILENO, O_RDONLY) || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    return Unavailable(std::string("Cannot redirect the standard streams: ") +
                       std::strerror(errno) + ".");
  }
  return streams;
}

ReadOutcome ReadSome(int fd, char* buffer, size_t capacity, const StopEvent& stop) {
  while (true) {
    pollfd fds[2] = {{fd, POLLIN, 0}, {stop.fd(), POLLIN, 0}};
    const int ready = poll(fds, 2, -1);
    if (stop.requested()) return {ReadStatus::kStopped, 0};
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return {ReadStatus::kEnd, 0};
    if (fds[0].revents == 0) continue;
    const ssize_t n = read(fd, buffer, capacity);
    if (n > 0) return {ReadStatus::kData, static_cast<size_t>(n)};
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    return {ReadStatus::kEnd, 0};
  }
}

bool WriteWhole(int fd, std::string_view bytes, const StopEvent& stop) {
  bool is_socket = true;  // some clients (Node's child_process) connect by socket pairs
  while (!bytes.empty()) {
    ssize_t n = -1;
    if (is_socket) {
      n = send(fd, bytes.data(), bytes.size(), kSendFlags);
      if (n < 0 && errno == ENOTSOCK) {
        is_socket = false;
        continue;
      }
    } else {
      if (!WaitWritable(fd, stop)) return false;
      n = write(fd, bytes.data(), std::min(bytes.size(), kSafeChunk));
    }
    if (n >= 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!WaitWritable(fd, stop)) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace mpnanny
