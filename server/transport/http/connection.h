// One client's connection: bytes in and out, with limits of time and size on each part of a
// request.
//
// Owns neither the socket nor a thread. One thread at a time serves it; StopIfIdle() and Abort()
// may be called from others while the socket is open. What has been read beyond a request stays for
// the next one.
#ifndef MPNANNY_SERVER_TRANSPORT_HTTP_CONNECTION_H_
#define MPNANNY_SERVER_TRANSPORT_HTTP_CONNECTION_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/sockets.h"

namespace mpnanny {

struct HttpLimits {
  // From a request's first byte to the end of its head, and from there to the end of its body,
  // however slowly it drips.
  std::chrono::milliseconds head{10'000};  // and from the connection to the first byte
  std::chrono::milliseconds body{30'000};
  std::chrono::milliseconds stall{20'000};  // a client that takes nothing of an answer so long
  std::chrono::seconds idle{75};            // between requests
  size_t head_bytes = 64u << 10;
  size_t body_bytes = 4u << 20;
  size_t connections = 512;
  // Of these, what clients of one address may hold with requests that they have not sent to the
  // end.
  size_t unfinished() const { return std::min(connections, std::max<size_t>(connections / 4, 16)); }
};

class HttpConnection {
 public:
  HttpConnection(int socket, const HttpLimits& limits);
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // Waits for the first bytes of the next request; false if there will be none.
  bool AwaitRequest();
  // All that has been asked for of the request is here; the client owes nothing until the next.
  void RequestRead();
  // What Read() reads now: the body; or nothing more of this request.
  void BeginBody();
  void EndRequest() { phase_ = Phase::kEnd; }
  // The rest of the request is not wanted: reading fails, and the connection ends after the answer.
  void Refuse() { phase_ = Phase::kRefused; }

  // As recv(): 0 at the end, negative when a limit is reached.
  long Read(char* to, size_t size) {
    if (at_ == end_) return ReadMore(to, size);
    if (phase_ == Phase::kHead) return ReadHead(to);
    const size_t taken = size < end_ - at_ ? size : end_ - at_;
    for (size_t i = 0; i < taken; ++i) to[i] = buffer_[at_ + i];
    at_ += taken;
    return static_cast<long>(taken);
  }
  bool Write(std::string_view bytes);

  // Waits for wake(), `until`, or the client's end. Half a close is told once a request.
  PeerState Wait(SocketClock::time_point until);
  WakeEvent& wake();

  void StopIfIdle();
  // False if the client owes nothing any more.
  bool CutIfOwed();
  void Abort() { CutOff(socket_); }

  int socket() const { return socket_; }
  bool timed_out() const { return timed_out_; }
  // More came than a request line may have (RFC 9112 asks for 8,000 bytes), and it has no end.
  bool request_line_too_long() const {
    return phase_ == Phase::kHead && !in_header_lines_ && head_bytes_ > 8000;
  }
  bool answered() const { return answered_; }  // something has been written for this request
  bool broken() const { return broken_; }
  bool refused() const { return phase_ == Phase::kRefused; }
  // A line of the head ended without CR: others may have read the lines around it differently.
  bool has_bare_line_end() const { return has_bare_line_end_; }

  std::string local_address, remote_address;
  // Read() gives '%' in header lines as "%25", for a reader that takes values for URLs.
  bool escape_percent = false;
  // Since when the client owes a request, or the rest of one; meaningful while idle() or
  // unfinished().
  SocketClock::time_point owed_since() const { return owed_since_; }
  bool idle() const { return state_.load() == State::kIdle; }
  // It has begun a request and not ended it, or never sent a byte.
  bool unfinished() const {
    const State state = state_.load();
    return state == State::kReceiving || (state == State::kIdle && first_request_);
  }
  bool leaving = false;      // was cut to make room; the listener's
  bool surplus = false;      // there are too many: answered with 503
  bool close_after = false;  // the answer says so
  bool stopped() const { return state_.load() == State::kStopped; }

 private:
  enum class Phase { kHead, kBody, kEnd, kRefused };
  enum class State { kBusy, kIdle, kReceiving, kStopped };
  bool Change(State from, State to) { return state_.compare_exchange_strong(from, to); }
  long ReadMore(char* to, size_t size);
  long ReadHead(char* to);

  const int socket_;
  const HttpLimits& limits_;
  std::vector<char> buffer_;
  size_t at_ = 0;
  size_t end_ = 0;
  Phase phase_ = Phase::kHead;
  SocketClock::time_point deadline_;
  size_t head_bytes_ = 0;
  bool in_header_lines_ = false;
  const char* escape_rest_ = "";  // what of an escaped '%' is still to be given
  bool timed_out_ = false;
  bool broken_ = false;
  bool answered_ = false;
  bool has_bare_line_end_ = false;
  char last_ = '\0';  // of the head
  std::atomic<bool> first_request_ = true;
  bool told_half_closed_ = false;
  std::atomic<SocketClock::time_point> owed_since_{SocketClock::now()};
  std::optional<WakeEvent> wake_;
  std::atomic<State> state_{State::kBusy};
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_TRANSPORT_HTTP_CONNECTION_H_
