#include "server/transport/http/answer_stream.h"

#include <utility>

#include "server/transport/http/sse.h"

namespace mpnanny {

namespace {
constexpr size_t kWriteBytes = 64u << 10;
}

AnswerStream::AnswerStream(Source source, AnswerStreamOptions options)
    : source_(std::move(source)),
      options_(options),
      // Of what comes: a message that has been taken already is still to be written.
      primed_at_(source_.first ? source_.first->number - 1 : source_.events->position()) {}

AnswerStream::~AnswerStream() {
  if (!complete_ && source_.on_gone) source_.on_gone();
  source_.events->Detach(source_.reader);
}

HttpHeaders AnswerStream::Headers() {
  // The last one tells proxies not to collect the events before they pass them on.
  return {{"Cache-Control", "no-store"}, {"X-Accel-Buffering", "no"}};
}

void AnswerStream::Append(std::string& text, const StreamMessage& message) const {
  std::optional<EventId> id;
  if (source_.number) id = EventId{*source_.number, message.number};
  AppendEvent(text, message.text, id);
}

// Appends what there is, up to a bound, and says why there is no more.
EventStream::Next AnswerStream::Gather(std::string& text) {
  StreamMessage message;
  while (text.size() < kWriteBytes) {
    const EventStream::Next next = source_.events->Take(source_.reader, message);
    if (next != EventStream::Next::kMessage) return next;
    Append(text, message);
  }
  return EventStream::Next::kMessage;
}

bool AnswerStream::Write(HttpStream& out) {
  using Next = EventStream::Next;
  if (source_.gone) return false;
  std::string text;
  if (source_.primes) AppendPrimingEvent(text, {*source_.number, primed_at_}, options_.retry);
  if (source_.first) Append(text, *source_.first);
  // Something at once, so that the client knows that it is being served.
  if (text.empty()) text = kKeepAliveComment;
  auto comment_at = SocketClock::now() + options_.comment_every;
  while (true) {
    const Next next = Gather(text);
    if (!text.empty()) {
      if (!out.Write(text)) return false;
      text.clear();
      comment_at = SocketClock::now() + options_.comment_every;
    }
    if (next == Next::kMessage) continue;
    complete_ = next == Next::kEnd || next == Next::kReplaced ||
                (next == Next::kSuspended && source_.primes);
    if (complete_ || next == Next::kCut) return complete_;
    const PeerState peer = out.Wait(comment_at);
    if (peer == PeerState::kGone) return false;
    if (peer == PeerState::kHalfClosed && source_.ends_with_half_close) return false;
    // After half a close the comment finds out at once whether there is still a reader.
    if (peer != PeerState::kWoken) text = kKeepAliveComment;
  }
}

}  // namespace mpnanny
