// From an incoming message to its answer: the core that every transport and both eras share.
//
// Handle() runs on the transport's reading thread; methods that may take long go to a pool, with a
// deadline, and can be cancelled. Every request is answered exactly once (call.h) unless it was
// cancelled, whatever its handler does: an exception becomes error -32603 with the id of a log
// line, and a handler that does not return is answered for. The dispatcher owns the method table
// and borrows nothing; it must outlive the transports that feed it. Thread-safe.
#ifndef MPNANNY_SERVER_DISPATCH_DISPATCHER_H_
#define MPNANNY_SERVER_DISPATCH_DISPATCHER_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "base/json.h"
#include "server/dispatch/call_table.h"
#include "server/dispatch/connection.h"
#include "server/dispatch/jobs.h"
#include "server/dispatch/method_table.h"
#include "server/dispatch/notice_hub.h"
#include "server/dispatch/request_context.h"
#include "server/dispatch/request_state.h"
#include "server/dispatch/worker_pool.h"
#include "server/transport/transport.h"

namespace mpnanny {

struct DispatcherOptions {
  // Clients give a call up after 60 s (Claude Desktop, Cursor, the TypeScript SDK): handlers are
  // told to stop well before, or go on as a job; one that does not listen is answered for after
  // `grace` more.
  std::chrono::milliseconds deadline{40'000};
  std::chrono::milliseconds grace{5'000};
  // How long a legacy client (that is, a person) may take to answer what it was asked.
  std::chrono::milliseconds client_answer{600'000};
  size_t threads = 4;
  size_t max_waiting_calls = 4096;
};

class Dispatcher {
 public:
  // `server_info`: our Implementation object (name, title, version …).
  Dispatcher(MethodTable methods, Json server_info, DispatcherOptions options = {});

  // Answers, now or later, through `sink`, which is let go of when nothing more will be sent.
  void Handle(std::string_view text, const std::shared_ptr<Connection>& connection,
              const std::shared_ptr<MessageSink>& sink);

  // The same for a message, or batch, that is parsed already.
  void HandleMessage(Json json, const std::shared_ptr<Connection>& connection,
                     const std::shared_ptr<MessageSink>& sink);

  // The client is gone: its calls are taken back, its subscriptions end. Jobs go on.
  void Disconnect(const std::shared_ptr<Connection>& connection);

  // Tells clients what changed.
  NoticeHub& notices() { return notices_; }

  // Ends what has no end by itself, or none that anybody could hear of: requests that listen get
  // their final result, jobs are told to stop.
  void StopListening() {
    notices_.EndAll();
    jobs_.StopAll();
  }

  // Waits until no call runs; false if that took longer.
  bool WaitUntilIdle(std::chrono::milliseconds at_most) { return running_.WaitUntilNone(at_most); }

  // Tells all calls to stop. Those that notice, those that still wait for their turn, and those
  // that wait for the client, are answered: the server is stopping.
  void StopCalls();

  // Gives this same answer for the calls that have none yet, whatever they do.
  void AnswerForCalls();

 private:
  // A request and what the client answered to earlier rounds of it.
  struct Work {
    const Method& method;
    Json params;
    ClientInput input;
    int rounds = 0;  // how often a legacy client was asked
  };

  void HandleOne(Json json, const std::shared_ptr<Connection>& connection,
                 const std::shared_ptr<MessageSink>& sink, bool in_batch);
  void HandleBatch(Json batch, const std::shared_ptr<Connection>& connection,
                   const std::shared_ptr<MessageSink>& sink);
  void HandleRequest(RequestMessage request, const std::shared_ptr<Connection>& connection,
                     const std::shared_ptr<MessageSink>& sink, bool in_batch);
  void HandleCancelled(const Json& params, Connection& connection);
  std::variant<ClientInput, WireError> ReadInput(const std::string& method, Json& params) const;
  Outcome Run(const Work& work, const std::shared_ptr<Call>& call,
              const std::shared_ptr<Connection>& connection);
  void Start(Work work, const std::shared_ptr<Call>& call,
             const std::shared_ptr<Connection>& connection);
  void Finish(Work work, const std::shared_ptr<Call>& call,
              const std::shared_ptr<Connection>& connection, Outcome outcome);
  void FinishInput(Work work, const std::shared_ptr<Call>& call,
                   const std::shared_ptr<Connection>& connection, InputRequired input);
  void AskLegacyClient(Work work, const std::shared_ptr<Call>& call,
                       const std::shared_ptr<Connection>& connection, const Json& requests);
  void TakeBack(const std::shared_ptr<Call>& call, Connection& connection);
  void OnDeadline(const RunningCalls::Entry& entry);
  void AnswerOverdue(const RunningCalls::Entry& entry) const;
  void AnswerForClient(const RunningCalls::Entry& entry) const;

  const MethodTable methods_;
  const Json server_info_;
  const DispatcherOptions options_;
  const RequestStateSeal seal_;
  NoticeHub notices_;
  Jobs jobs_;
  std::atomic<bool> stopping_{false};
  RunningCalls running_;
  RunningCalls asking_;  // calls that wait for a legacy client
  WorkerPool pool_;      // last: its threads end before what they use is destroyed
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DISPATCH_DISPATCHER_H_
