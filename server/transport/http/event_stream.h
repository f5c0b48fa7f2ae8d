// What is on its way to one client in answer to one message: a bounded queue between those who send
// (the core, any thread) and the connection's thread, which writes.
//
// Senders never wait. A stream that keeps its messages survives its connection: what a reader has
// not seen can be read again by the next one. Shared between its sink and its reader. Thread-safe.
#ifndef MPNANNY_SERVER_TRANSPORT_HTTP_EVENT_STREAM_H_
#define MPNANNY_SERVER_TRANSPORT_HTTP_EVENT_STREAM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/json.h"
#include "base/sockets.h"
#include "server/transport/transport.h"

namespace mpnanny {

struct StreamMessage {
  std::string text;
  // What a client can do without when too much is kept: progress and log messages before other
  // notices; requests to the client and answers are never dropped.
  enum class Worth { kPassing, kNotice, kNeeded } worth = Worth::kNeeded;
  bool is_response = false;  // or a batch of them
  int error_code = 0;        // of a response that is an error
  uint64_t number = 0;       // the first message of a stream is 1
};

struct StreamLimits {
  size_t unread_bytes =
      8u << 20;                  // more than one message and more than this: the reader is cut off
  size_t kept_bytes = 1u << 20;  // the newest message is kept whatever its size
};

// Counts the bytes that streams keep for clients to come back to: those of a session, and by
// `all` those of all sessions. Thread-safe; shared by the streams that are counted.
class KeptBytes {
 public:
  explicit KeptBytes(std::shared_ptr<KeptBytes> all = nullptr) : all_(std::move(all)) {}
  void Change(size_t from, size_t to) {
    bytes_ += to - from;
    if (all_) all_->Change(from, to);
  }
  size_t bytes() const { return bytes_; }

 private:
  const std::shared_ptr<KeptBytes> all_;
  std::atomic<size_t> bytes_{0};
};

class EventStream {
 public:
  enum class Next {
    kMessage,
    kNothing,    // yet; the reader will be woken
    kEnd,        // all is read and nothing more will come
    kSuspended,  // the reader is to end its answer; the client comes back for the rest
    kReplaced,   // another reader has taken over
    kCut,        // the reader was too slow
  };

  explicit EventStream(StreamLimits limits = {}) : limits_(limits) {}
  ~EventStream() {
    if (meter_) meter_->Change(counted_, 0);
  }
  EventStream(const EventStream&) = delete;
  EventStream& operator=(const EventStream&) = delete;

  // For senders.
  void Send(const Json& message);
  void Suspend();
  void End();

  // For readers, of which there is one at a time: attaching takes the stream from the one before.
  // `wake` is raised whenever there is something new; it must live until Detach().
  uint64_t Attach(WakeEvent& wake);
  // The next message to be taken is the first one that is kept after this number. nullopt, and the
  // reader before stays: no message had this number yet, or one after it is lost (passing ones
  // aside).
  std::optional<uint64_t> AttachAfter(WakeEvent& wake, uint64_t number);
  void Detach(uint64_t reader);
  Next Take(uint64_t reader, StreamMessage& message);

  // From now on messages are kept after they have been taken, and when nobody reads. `taken`: one
  // that was taken before, to be kept as well; null for none. `meter` counts what is kept.
  void Keep(const StreamMessage* taken = nullptr, std::shared_ptr<KeptBytes> meter = nullptr);

  // It is kept no longer for clients to come back to: only a reader that it has holds it.
  void Uncount();

  // The number of the last message that has been taken (or lost); 0 for none.
  uint64_t position() const;
  bool ended() const;
  // Has ended, and all of it has been taken.
  bool finished() const;

 private:
  uint64_t AttachLocked(WakeEvent& wake);
  void Bound();
  bool DropOne(StreamMessage::Worth worth);
  void Wake() const {
    if (wake_) wake_->Wake();
  }
  size_t UnreadCount() const { return messages_.size() - taken_; }
  void Drop(size_t index);

  const StreamLimits limits_;
  mutable std::mutex mutex_;
  // All guarded by mutex_.
  std::deque<StreamMessage> messages_;
  size_t taken_ = 0;  // of messages_, from the front; only where they are kept
  size_t bytes_ = 0;
  size_t unread_bytes_ = 0;
  uint64_t sent_ = 0;
  uint64_t lost_ = 0;  // the last message that was dropped and is no passing one
  std::shared_ptr<KeptBytes> meter_;
  size_t counted_ = 0;  // of bytes_, by the meter
  WakeEvent* wake_ = nullptr;
  uint64_t reader_ = 0;
  bool keep_ = false;
  bool gone_ = false;  // nobody reads, and nobody will
  bool ended_ = false;
  bool suspended_ = false;
  bool cut_ = false;
};

// What the core holds of a stream. When everybody has let go of it, the stream ends.
class StreamSink : public MessageSink {
 public:
  explicit StreamSink(std::shared_ptr<EventStream> stream) : stream_(std::move(stream)) {}
  ~StreamSink() override { stream_->End(); }
  void Send(const Json& message) override { stream_->Send(message); }
  void Suspend() override { stream_->Suspend(); }

 private:
  const std::shared_ptr<EventStream> stream_;
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_TRANSPORT_HTTP_EVENT_STREAM_H_
