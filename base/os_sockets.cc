#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/sockets.h"
#ifdef __linux__
#include <sys/eventfd.h>
#endif

namespace mpnanny {
namespace {

#ifdef POLLRDHUP
constexpr short kHangUp = POLLRDHUP;
#else
constexpr short kHangUp = 0;  // only a full close is seen there, as POLLHUP
#endif
#ifdef MSG_NOSIGNAL
constexpr int kSendFlags = MSG_DONTWAIT | MSG_NOSIGNAL;
#else
constexpr int kSendFlags = MSG_DONTWAIT;
#endif

// Rounded up, so that a wait does not end just before its time.
int MillisecondsUntil(SocketClock::time_point until) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(until - SocketClock::now()).count();
  return static_cast<int>(std::clamp<decltype(left)>(left, 0, INT_MAX));
}

// poll() until something happened or the time is over; 0 then.
int PollUntil(pollfd* fds, nfds_t count, SocketClock::time_point until) {
  while (true) {
    const int ready = poll(fds, count, MillisecondsUntil(until));
    if (ready >= 0 || errno != EINTR) return ready;
  }
}

bool IsLoopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
  }
  if (address->sa_family != AF_INET6) return false;
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

}  // namespace

#ifdef __linux__
WakeEvent::WakeEvent() : read_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), write_(read_) {}
#else
WakeEvent::WakeEvent() {
  int ends[2];
  if (pipe(ends) != 0) return;
  for (const int fd : ends) {
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, O_NONBLOCK);
  }
  read_ = ends[0];
  write_ = ends[1];
}
#endif

WakeEvent::~WakeEvent() {
  if (write_ >= 0 && write_ != read_) close(write_);
  if (read_ >= 0) close(read_);
}

void WakeEvent::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(write_, &one, sizeof(one));
}

void WakeEvent::Clear() {
  uint64_t count;
  while (read(read_, &count, sizeof(count)) > 0 && read_ != write_) {
  }
}

PeerState WaitForWake(int socket, WakeEvent& wake, SocketClock::time_point until,
                      bool tell_half_closed) {
  const short asked = tell_half_closed ? kHangUp : static_cast<short>(0);
  pollfd fds[2] = {{socket, asked, 0}, {wake.fd(), POLLIN, 0}};
  const int ready = PollUntil(fds, 2, until);
  if (ready < 0 || (fds[0].revents & ~asked) != 0) return PeerState::kGone;
  if (fds[0].revents != 0) return PeerState::kHalfClosed;
  if (fds[1].revents == 0) return PeerState::kTimedOut;
  wake.Clear();
  return PeerState::kWoken;
}

Received ReceiveBy(int socket, char* buffer, size_t capacity, SocketClock::time_point until) {
  while (true) {
    const ssize_t n = recv(socket, buffer, capacity, MSG_DONTWAIT);
    if (n > 0) return {ReceiveStatus::kData, static_cast<size_t>(n)};
    if (n == 0) return {ReceiveStatus::kEnd, 0};
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return {ReceiveStatus::kEnd, 0};
    pollfd fd{socket, POLLIN, 0};
    const int ready = PollUntil(&fd, 1, until);
    if (ready == 0) return {ReceiveStatus::kTimedOut, 0};
    if (ready < 0) return {ReceiveStatus::kEnd, 0};
  }
}

bool SendWhole(int socket, std::string_view bytes, SocketClock::duration stall) {
  while (!bytes.empty()) {
    const ssize_t n = send(socket, bytes.data(), bytes.size(), kSendFlags);
    if (n >= 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd fd{socket, POLLOUT, 0};
      if (PollUntil(&fd, 1, SocketClock::now() + stall) <= 0) return false;
      if (fd.revents & (POLLERR | POLLHUP | POLLNVAL)) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

void StopReceiving(int socket) { shutdown(socket, SHUT_RD); }
void CutOff(int socket) { shutdown(socket, SHUT_RDWR); }
void StopListening(int socket) { CutOff(socket); }
void CloseSocket(int socket) { close(socket); }

void CloseAfterAnswer(int socket, SocketClock::duration limit) {
  shutdown(socket, SHUT_WR);
  const auto until = SocketClock::now() + limit;
  char unread[4096];
  while (ReceiveBy(socket, unread, sizeof(unread), until).status == ReceiveStatus::kData &&
         SocketClock::now() < until) {
  }
  close(socket);
}

void AllowAddressReuse(int socket) {
  const int on = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
}

bool IsLoopbackHost(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  bool all = found != nullptr;
  for (const addrinfo* each = found; each; each = each->ai_next) {
    all = all && IsLoopback(each->ai_addr);
  }
  freeaddrinfo(found);
  return all;
}

SocketFailure LastSocketFailure() {
  return {errno == EADDRINUSE, errno == 0 ? "" : std::strerror(errno)};
}

size_t RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 256;
  if (limit.rlim_cur < limit.rlim_max) {
    // Not without bound: some systems allow a billion, and then refuse it.
    const rlim_t wanted = std::min<rlim_t>(limit.rlim_max, 65536);
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = std::max(wanted, before);
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = before;
  }
  return static_cast<size_t>(std::min<rlim_t>(limit.rlim_cur, 1u << 20));
}

}  // namespace mpnanny
