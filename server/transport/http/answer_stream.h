// One HTTP answer that is a stream of events: reads an EventStream and writes what comes, until it
// ends or the client is gone.
//
// Made by the endpoint, then used by the connection's thread. Its destructor lets the event stream
// go, so that nothing waits for a client that has left, even if no byte was ever written.
#ifndef MPNANNY_SERVER_TRANSPORT_HTTP_ANSWER_STREAM_H_
#define MPNANNY_SERVER_TRANSPORT_HTTP_ANSWER_STREAM_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/transport/http/event_stream.h"
#include "server/transport/http/exchange.h"

namespace mpnanny {

struct AnswerStreamOptions {
  std::chrono::milliseconds comment_every{15'000};
  std::chrono::milliseconds retry{1'000};  // after what time a client should come back
};

class AnswerStream {
 public:
  struct Source {
    std::shared_ptr<EventStream> events;
    uint64_t reader = 0;  // of `events`, attached
    // The stream's number in its session; events then carry ids to resume from.
    std::optional<uint64_t> number = std::nullopt;
    // The first event only tells an id. Such clients come back after Suspend().
    bool primes = false;
    // A client that sends no more counts as gone. A modern client takes its request back by closing
    // the connection, which looks like that at first; waiting for more would leave its call
    // running. A legacy client cancels by a message, so it may well be done sending only.
    bool ends_with_half_close = false;
    bool half_closed = false;                           // it has sent its last already
    bool gone = false;                                  // it is gone already
    std::optional<StreamMessage> first = std::nullopt;  // taken already
    std::function<void()> on_gone = nullptr;            // the client left before the end
    std::shared_ptr<void> holds = nullptr;              // let go of with this object
  };

  AnswerStream(Source source, AnswerStreamOptions options);
  ~AnswerStream();
  AnswerStream(const AnswerStream&) = delete;
  AnswerStream& operator=(const AnswerStream&) = delete;

  static HttpHeaders Headers();

  // Returns when the answer is complete (true), or the client gone or cut off.
  bool Write(HttpStream& out);

 private:
  EventStream::Next Gather(std::string& text);
  void Append(std::string& text, const StreamMessage& message) const;

  Source source_;
  const AnswerStreamOptions options_;
  uint64_t primed_at_ = 0;
  bool complete_ = false;
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_TRANSPORT_HTTP_ANSWER_STREAM_H_
