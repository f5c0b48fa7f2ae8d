// The sessions of legacy clients over HTTP: what `initialize` began, found again by its id.
//
// Modern requests have none. A session owns the client's Connection and those of its event streams
// that the client may still come back to. It ends by DELETE, when nobody has used it for a while,
// or when there are too many and it has been idle the longest. While one of its calls runs it is in
// use. Thread-safe.
#ifndef MPNANNY_SERVER_HTTP_SESSIONS_H_
#define MPNANNY_SERVER_HTTP_SESSIONS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "server/dispatch/connection.h"
#include "server/transport/http/event_stream.h"

namespace mpnanny {

struct SessionLimits {
  size_t most = 256;
  std::chrono::seconds idle{30 * 60};
  size_t kept_streams = 16;  // of one session, beside its own
  // What these streams keep, of one session and of all. Above it streams are forgotten that have
  // ended, first those that were read to their end.
  size_t kept_bytes = 4u << 20;
  size_t kept_bytes_of_all = 64u << 20;
};

// The session's own stream: messages that belong to no request.
inline constexpr uint64_t kOwnStream = 0;

class Session : public std::enable_shared_from_this<Session> {
 public:
  using Clock = std::chrono::steady_clock;

  Session(const SessionLimits& limits, std::shared_ptr<KeptBytes> kept_by_all);

  const std::string& id() const { return id_; }
  const std::shared_ptr<Connection>& connection() const { return connection_; }

  // Keeps the stream's messages from now on, and the one that was `taken` already if not null, and
  // gives it a number. Streams that have ended are forgotten for it, never others; nullopt, and it
  // is not kept, if that does not make room enough.
  std::optional<uint64_t> Keep(std::shared_ptr<EventStream> stream,
                               const StreamMessage* taken = nullptr);
  // Null if there was none of this number, or it is forgotten.
  std::shared_ptr<EventStream> Find(uint64_t number);
  // No stream carries anything any more.
  void EndStreams();

 private:
  friend class Sessions;
  enum class Spare { kUnread, kNothing };  // which of the streams that have ended are kept

  bool OverBudget() const;
  // Forgets streams until the session's budget is met.
  void MeetBudget();
  // Forgets the oldest stream that may go; false if there is none.
  bool Forget(Spare spare);
  bool ForgetLocked(Spare spare);
  // Forgets as many as may go, first those that were read to their end.
  void ForgetWhileLocked(const std::function<bool()>& over);

  const std::string id_;
  const SessionLimits limits_;
  const std::shared_ptr<KeptBytes> kept_by_all_;
  const std::shared_ptr<KeptBytes> kept_;
  const std::shared_ptr<EventStream> own_stream_;
  const std::shared_ptr<Connection> connection_;

  std::mutex mutex_;
  uint64_t last_number_ = kOwnStream;                                           // guarded by mutex_
  std::deque<std::pair<uint64_t, std::shared_ptr<EventStream>>> streams_ = {};  // guarded by mutex_

  int users_ = 0;               // guarded by Sessions::mutex_
  Clock::time_point last_use_;  // guarded by Sessions::mutex_
};

class Sessions {
 public:
  // `on_end` is called for every session that has ended, by whoever caused it.
  Sessions(SessionLimits limits, std::function<void(Session&)> on_end);

  // A session that is in use as long as somebody holds the pointer.
  using Use = std::shared_ptr<Session>;

  // A new one, which nobody finds before it is admitted.
  Use Create();
  // False if there are too many, all in use.
  bool Admit(const Use& session);
  // Null if there is none of this id.
  Use Find(std::string_view id);
  void End(const std::string& id);
  void EndAll();

 private:
  using Clock = Session::Clock;
  Use Hold(const std::shared_ptr<Session>& session);
  void EndIdle(bool make_room);
  // Forgets streams of all sessions, the longest idle first, until the budget of all is met.
  void MeetBudget();

  const SessionLimits limits_;
  const std::shared_ptr<KeptBytes> kept_ = std::make_shared<KeptBytes>();
  const std::function<void(Session&)> on_end_;
  // Shared with the uses, which may outlive the table.
  const std::shared_ptr<std::mutex> mutex_ = std::make_shared<std::mutex>();
  std::unordered_map<std::string, std::shared_ptr<Session>> sessions_;  // guarded by mutex_
  Clock::time_point next_sweep_;                                        // guarded by mutex_
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_HTTP_SESSIONS_H_
