// One request on its way to its answer. It alone can send for its id, and it does so at most once.
//
// Shared between the thread that works on it, the connection's table of running calls
// (cancellation) and the dispatcher's (deadlines): the last one to let go destroys it. Thread-safe.
// An answer that was never given is given by the destructor, as an internal error, so no client
// waits for ever.
#ifndef MPNANNY_SERVER_DISPATCH_CALL_H_
#define MPNANNY_SERVER_DISPATCH_CALL_H_

#include <chrono>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/cancel.h"
#include "server/dispatch/outcome.h"
#include "server/protocol/jsonrpc.h"
#include "server/protocol/versions.h"
#include "server/transport/transport.h"

namespace mpnanny {

class Call {
 public:
  using Clock = std::chrono::steady_clock;

  // `server_info`: our Implementation object, outlives the call. `limit`: when the cancel token
  // expires.
  Call(RequestId id, std::string method, Envelope envelope, std::shared_ptr<MessageSink> sink,
       const Json& server_info, Clock::duration limit);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Sends the answer unless the call has one or was taken back.
  void Answer(Outcome outcome);

  // The client no longer wants the answer: none will be sent, and the work is told to stop.
  void TakeBack();

  // Tells the work to stop; the call still gets its answer.
  void Stop() const { cancel_.Cancel(); }

  // Sends a progress note, if the client asked for them, the call is open and `progress` is more
  // than before.
  void Progress(double progress, std::optional<double> total, const std::string& message);

  bool wants_progress() const { return !envelope_.progress_token.is_null(); }
  const RequestId& id() const { return id_; }
  const std::string& method() const { return method_; }
  const Envelope& envelope() const { return envelope_; }
  CancelToken cancel() const { return cancel_.token(); }

 private:
  Json Response(MethodResult result) const;

  const RequestId id_;
  const std::string method_;
  const Envelope envelope_;
  const Json& server_info_;
  const CancelSource cancel_;

  std::mutex mutex_;
  std::shared_ptr<MessageSink> sink_;  // guarded by mutex_; null once answered or taken back
  double last_progress_ = -std::numeric_limits<double>::infinity();  // guarded by mutex_
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DISPATCH_CALL_H_
