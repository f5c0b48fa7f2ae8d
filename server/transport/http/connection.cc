#include "server/transport/http/connection.h"

#include <algorithm>

namespace mpnanny {

namespace {
constexpr size_t kBufferBytes = 16u << 10;
}

HttpConnection::HttpConnection(int socket, const HttpLimits& limits)
    : socket_(socket), limits_(limits), buffer_(kBufferBytes) {}

bool HttpConnection::AwaitRequest() {
  Change(State::kReceiving, State::kBusy);  // a request that could not be read
  if (at_ == end_) {
    const auto now = SocketClock::now();
    owed_since_ = now;
    if (!Change(State::kBusy, State::kIdle)) return false;
    const auto until = now + (first_request_ ? limits_.head : limits_.idle);
    const Received got = ReceiveBy(socket_, buffer_.data(), buffer_.size(), until);
    owed_since_ = SocketClock::now();
    if (!Change(State::kIdle, State::kReceiving)) return false;
    if (got.status != ReceiveStatus::kData) return false;
    at_ = 0;
    end_ = got.bytes;
  } else {
    owed_since_ = SocketClock::now();
    if (!Change(State::kBusy, State::kReceiving)) return false;
  }
  phase_ = Phase::kHead;
  head_bytes_ = end_ - at_;
  in_header_lines_ = false;
  answered_ = false;
  first_request_ = false;
  told_half_closed_ = false;
  has_bare_line_end_ = false;
  last_ = '\0';
  escape_rest_ = "";
  deadline_ = SocketClock::now() + limits_.head;
  return true;
}

void HttpConnection::RequestRead() { Change(State::kReceiving, State::kBusy); }

void HttpConnection::BeginBody() {
  Change(State::kBusy, State::kReceiving);
  phase_ = Phase::kBody;
  deadline_ = SocketClock::now() + limits_.body;
}

long HttpConnection::ReadMore(char* to, size_t size) {
  if (*escape_rest_ != '\0') return ReadHead(to);
  if (phase_ == Phase::kEnd) return 0;
  if (phase_ == Phase::kRefused || timed_out_) return -1;
  const bool direct = phase_ == Phase::kBody && size >= buffer_.size();
  char* const target = direct ? to : buffer_.data();
  const Received got = ReceiveBy(socket_, target, direct ? size : buffer_.size(), deadline_);
  if (got.status == ReceiveStatus::kTimedOut) {
    timed_out_ = true;
    return -1;
  }
  if (got.status == ReceiveStatus::kEnd) return 0;
  // A peer that always has a byte ready would never meet the wait's limit.
  if (SocketClock::now() > deadline_) {
    timed_out_ = true;
    return -1;
  }
  if (direct) return static_cast<long>(got.bytes);
  if (phase_ == Phase::kHead && (head_bytes_ += got.bytes) > limits_.head_bytes) return -1;
  at_ = 0;
  end_ = got.bytes;
  return Read(to, size);
}

// One byte: heads are read line by line.
long HttpConnection::ReadHead(char* to) {
  if (*escape_rest_ != '\0') {
    *to = *escape_rest_++;
    return 1;
  }
  const char c = buffer_[at_++];
  if (c == '\n') {
    in_header_lines_ = true;
    if (last_ != '\r') has_bare_line_end_ = true;
  }
  last_ = c;
  if (c == '%' && escape_percent && in_header_lines_) escape_rest_ = "25";
  *to = c;
  return 1;
}

bool HttpConnection::Write(std::string_view bytes) {
  answered_ = true;
  if (!broken_ && !SendWhole(socket_, bytes, limits_.stall)) broken_ = true;
  return !broken_;
}

PeerState HttpConnection::Wait(SocketClock::time_point until) {
  const PeerState peer = WaitForWake(socket_, wake(), until, !told_half_closed_);
  if (peer == PeerState::kHalfClosed) told_half_closed_ = true;
  return peer;
}

WakeEvent& HttpConnection::wake() {
  if (!wake_) wake_.emplace();
  return *wake_;
}

bool HttpConnection::CutIfOwed() {
  if (!Change(State::kIdle, State::kStopped) && !Change(State::kReceiving, State::kStopped))
    return false;
  StopReceiving(socket_);
  return true;
}

void HttpConnection::StopIfIdle() {
  while (!stopped()) {
    if (Change(State::kIdle, State::kStopped)) return StopReceiving(socket_);
    // What has begun is answered. Neither: its request has just ended, or begun.
    if (Change(State::kBusy, State::kStopped) || Change(State::kReceiving, State::kStopped)) return;
  }
}

}  // namespace mpnanny
