// Waiting for, reading from and writing to connected sockets, each with a limit of time.
//
// Free functions on descriptors that the caller owns, and WakeEvent, by which other threads reach
// the one that waits for a socket. Reads and writes never raise SIGPIPE.
#ifndef MPNANNY_BASE_SOCKETS_H_
#define MPNANNY_BASE_SOCKETS_H_

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace mpnanny {

// Wakes the one thread that waits with it. Wake() may be called from any thread.
class WakeEvent {
 public:
  WakeEvent();
  ~WakeEvent();
  WakeEvent(const WakeEvent&) = delete;
  WakeEvent& operator=(const WakeEvent&) = delete;

  void Wake();
  void Clear();
  // Readable from Wake() to Clear(). -1 if the system had no descriptor left: then waits end by
  // their limit only.
  int fd() const { return read_; }

 private:
  int read_ = -1;
  int write_ = -1;  // the same descriptor where the system has eventfd
};

using SocketClock = std::chrono::steady_clock;

// kHalfClosed: the peer sends no more. Whether it still reads cannot be seen: a peer that is done
// sending and one that has closed look the same, until something is written to it.
enum class PeerState { kWoken, kTimedOut, kHalfClosed, kGone };

// Waits until the event is raised (and clears it), `until`, or the peer is gone, which wins. Half a
// close is told if `tell_half_closed`, and where the system shows it.
PeerState WaitForWake(int socket, WakeEvent& wake, SocketClock::time_point until,
                      bool tell_half_closed);

enum class ReceiveStatus { kData, kEnd, kTimedOut };
struct Received {
  ReceiveStatus status = ReceiveStatus::kEnd;  // kEnd: the peer has closed, or an error
  size_t bytes = 0;
};

// Waits for data until `until`.
Received ReceiveBy(int socket, char* buffer, size_t capacity, SocketClock::time_point until);

// Sends everything; false if the peer is gone or takes nothing for `stall`.
bool SendWhole(int socket, std::string_view bytes, SocketClock::duration stall);

// Threads that wait for data on it find its end; what is written still goes out.
void StopReceiving(int socket);
// Ends both directions: whoever waits for the socket wakes up.
void CutOff(int socket);
// Ends what accept() waits for. Where that needs the socket to be closed, it is closed.
void StopListening(int socket);
void CloseSocket(int socket);
// Tells the peer that no more comes and reads what it still sends, for as long as `limit`, before
// closing: closing at once would reset the connection and take an answer with it that is still
// under way.
void CloseAfterAnswer(int socket, SocketClock::duration limit);

// Lets a port be taken again while old connections fade, but not while another socket listens.
void AllowAddressReuse(int socket);

// True if the name or address stands for this machine only. False for what cannot be resolved.
bool IsLoopbackHost(const std::string& host);

// Why the last call on a socket failed in this thread.
struct SocketFailure {
  bool port_in_use = false;
  std::string text;  // empty where the system does not tell
};
SocketFailure LastSocketFailure();

// Raises this process's limit of open descriptors as far as it may, and returns it.
size_t RaiseDescriptorLimit();

}  // namespace mpnanny

#endif  // MPNANNY_BASE_SOCKETS_H_
