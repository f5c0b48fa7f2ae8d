// One request on its way to its answer. It alone can send for its id, and it answers at most once.
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
#include <vector>

#include "base/cancel.h"
#include "server/dispatch/jobs.h"
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

  // --- for handlers ---

  // Sends a progress note, if the client asked for them, the call is open and `progress` is more
  // than before.
  void Progress(double progress, std::optional<double> total, const std::string& message);

  // Sends a log message to the client, if it wants ones of this level and the call is open. `data`:
  // any JSON value, mostly a text.
  void Log(LogLevel level, const std::string& logger, Json data);

  // See MessageSink::Suspend().
  void SuspendStream();

  // Rather than being stopped at its deadline, the call of `tool` may then be answered by `running`
  // and go on as a job, for at most `limit` from now.
  void MayOutliveItsDeadline(const std::string& tool, RunningAnswer running, Clock::duration limit);

  // --- for the core ---

  // Sends the answer unless the call has one or was taken back. Takes results, errors and
  // InputRequired, whose state is sealed already.
  void Answer(Outcome outcome);

  // Sends something else that belongs to the call: a notice, or a request to the client. False if
  // the call is not open any more.
  bool Send(const Json& message);

  // The client no longer wants the answer: none will be sent, and the work is told to stop.
  void TakeBack();

  // Tells the work to stop; the call still gets its answer.
  void Stop() const { cancel_.Cancel(); }

  // The work begins (again, if the client was asked for something): its time starts now.
  void StartClock(Clock::duration limit);

  // At the deadline: turns the call into a job if it may outlive it. What to answer, which is for
  // the caller to do; nullopt, with nothing done, if it may not, or has ended.
  std::optional<Outcome> BecomeJob(Jobs& jobs);

  // The work has ended. Its job, if it became one: the outcome goes there.
  std::optional<std::string> Ended();

  // Requests of ours to the client that the call waits for; the second takes them out.
  void SetAsked(std::vector<std::string> ids);
  std::vector<std::string> TakeAsked();

  // Neither answered nor taken back.
  bool open() const;
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

  mutable std::mutex mutex_;
  std::shared_ptr<MessageSink> sink_;  // guarded by mutex_; null once answered or taken back
  double last_progress_ = -std::numeric_limits<double>::infinity();  // guarded by mutex_
  std::string tool_;                                                 // guarded by mutex_
  RunningAnswer running_;                                            // guarded by mutex_
  std::optional<std::string> job_;                                   // guarded by mutex_
  bool ended_ = false;                                               // guarded by mutex_
  std::vector<std::string> asked_;                                   // guarded by mutex_
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DISPATCH_CALL_H_
