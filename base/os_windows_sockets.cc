#include <winsock2.h>
#include <ws2tcpip.h>

#include <algorithm>
#include <climits>

#include "base/os_windows_text.h"
#include "base/sockets.h"

namespace mpnanny {
namespace {

// A wait is cut into pieces: a socket whose ends another thread shuts down need not wake it.
constexpr int kPieceMs = 200;

void StartSockets() {
  static const bool started = [] {
    WSADATA data;
    return WSAStartup(MAKEWORD(2, 2), &data) == 0;
  }();
  static_cast<void>(started);
}

SOCKET SocketOf(int number) { return static_cast<SOCKET>(static_cast<UINT_PTR>(number)); }

// Rounded up, so that a wait does not end just before its time.
int MillisecondsUntil(SocketClock::time_point until) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(until - SocketClock::now()).count();
  return static_cast<int>(std::clamp<decltype(left)>(left, 0, INT_MAX));
}

bool WouldBlock() { return WSAGetLastError() == WSAEWOULDBLOCK; }

// Nobody else sets the mode of a socket that is handed to us.
void DoNotBlock(SOCKET socket) {
  u_long on = 1;
  ioctlsocket(socket, FIONBIO, &on);
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

// WSAPoll() waits for sockets only: one that is connected to itself, of which others cannot send.
WakeEvent::WakeEvent() {
  StartSockets();
  const SOCKET made = ::socket(AF_INET, SOCK_DGRAM, IPPROTO_UDP);
  if (made == INVALID_SOCKET) return;
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int size = sizeof(here);
  auto* const address = reinterpret_cast<sockaddr*>(&here);
  if (bind(made, address, size) != 0 || getsockname(made, address, &size) != 0 ||
      connect(made, address, size) != 0) {
    closesocket(made);
    return;
  }
  DoNotBlock(made);
  read_ = write_ = static_cast<int>(made);
}

WakeEvent::~WakeEvent() {
  if (read_ >= 0) closesocket(SocketOf(read_));
}

void WakeEvent::Wake() {
  const char one = 1;
  send(SocketOf(write_), &one, 1, 0);
}

void WakeEvent::Clear() {
  char bytes[64];
  while (recv(SocketOf(read_), bytes, sizeof(bytes), 0) > 0) {
  }
}

// That a peer has closed is seen by what recv() would say: WSAPoll() calls half a close, as HTTP
// clients make it, a hang-up as well, and then does not wait any more.
PeerState WaitForWake(int socket, WakeEvent& wake, SocketClock::time_point until,
                      bool tell_half_closed) {
  const SOCKET peer = SocketOf(socket);
  while (true) {
    char byte;
    const int seen = recv(peer, &byte, 1, MSG_PEEK);
    if (seen < 0 && !WouldBlock()) return PeerState::kGone;
    if (seen == 0 && tell_half_closed) return PeerState::kHalfClosed;
    WSAPOLLFD fd{SocketOf(wake.fd()), POLLRDNORM, 0};
    const int left = MillisecondsUntil(until);
    const int ready = WSAPoll(&fd, 1, std::min(left, kPieceMs));
    if (ready > 0 && (fd.revents & POLLRDNORM) != 0) {
      wake.Clear();
      return PeerState::kWoken;
    }
    if (ready < 0) Sleep(static_cast<DWORD>(std::min(left, kPieceMs)));  // there is no event
    if (left <= kPieceMs && MillisecondsUntil(until) == 0) return PeerState::kTimedOut;
  }
}

Received ReceiveBy(int socket, char* buffer, size_t capacity, SocketClock::time_point until) {
  const SOCKET from = SocketOf(socket);
  const int most = static_cast<int>(std::min<size_t>(capacity, INT_MAX));
  DoNotBlock(from);
  while (true) {
    const int n = recv(from, buffer, most, 0);
    if (n > 0) return {ReceiveStatus::kData, static_cast<size_t>(n)};
    if (n == 0 || !WouldBlock()) return {ReceiveStatus::kEnd, 0};
    const int left = MillisecondsUntil(until);
    WSAPOLLFD fd{from, POLLRDNORM, 0};
    const int ready = WSAPoll(&fd, 1, std::min(left, kPieceMs));
    if (ready < 0) return {ReceiveStatus::kEnd, 0};
    if (ready == 0 && MillisecondsUntil(until) == 0) return {ReceiveStatus::kTimedOut, 0};
  }
}

bool SendWhole(int socket, std::string_view bytes, SocketClock::duration stall) {
  const SOCKET to = SocketOf(socket);
  DoNotBlock(to);
  auto until = SocketClock::now() + stall;
  while (!bytes.empty()) {
    const int n =
        send(to, bytes.data(), static_cast<int>(std::min<size_t>(bytes.size(), 1u << 20)), 0);
    if (n >= 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
      until = SocketClock::now() + stall;
      continue;
    }
    if (!WouldBlock()) return false;
    const int left = MillisecondsUntil(until);
    if (left == 0) return false;
    WSAPOLLFD fd{to, POLLWRNORM, 0};
    if (WSAPoll(&fd, 1, std::min(left, kPieceMs)) < 0) return false;
    if (fd.revents & (POLLERR | POLLHUP | POLLNVAL)) return false;
  }
  return true;
}

void StopReceiving(int socket) { shutdown(SocketOf(socket), SD_RECEIVE); }
void CutOff(int socket) { shutdown(SocketOf(socket), SD_BOTH); }
void StopListening(int socket) { closesocket(SocketOf(socket)); }
void CloseSocket(int socket) { closesocket(SocketOf(socket)); }

void CloseAfterAnswer(int socket, SocketClock::duration limit) {
  shutdown(SocketOf(socket), SD_SEND);
  const auto until = SocketClock::now() + limit;
  char unread[4096];
  while (ReceiveBy(socket, unread, sizeof(unread), until).status == ReceiveStatus::kData &&
         SocketClock::now() < until) {
  }
  closesocket(SocketOf(socket));
}

// SO_REUSEADDR would let any program take over the port of one that listens; ports are free again
// at once without it.
void AllowAddressReuse(int socket) {
  const BOOL on = TRUE;
  setsockopt(SocketOf(socket), SOL_SOCKET, SO_EXCLUSIVEADDRUSE, reinterpret_cast<const char*>(&on),
             sizeof(on));
}

bool IsLoopbackHost(const std::string& host) {
  StartSockets();
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

// Sockets are handles, and of these a process may have millions.
size_t RaiseDescriptorLimit() { return 65536; }

SocketFailure LastSocketFailure() {
  const int code = WSAGetLastError();
  // Another program's exclusive port is "access denied".
  return {code == WSAEADDRINUSE || code == WSAEACCES,
          code == 0 ? "" : WindowsErrorText(static_cast<uint32_t>(code))};
}

}  // namespace mpnanny
