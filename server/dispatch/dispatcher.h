// From an incoming message to its answer: the core that every transport and both eras share.
//
// Handle() runs on the transport's reading thread; methods that may take long go to a pool, with a
// deadline, and can be cancelled. Every request is answered exactly once (call.h) unless it was
// cancelled, whatever its handler does: an exception becomes error -32603 with the id of a log
// line, and a handler that does not return is answered for. The dispatcher owns the method table
// and borrows nothing; it must outlive the transports that feed it. Thread-safe.
#ifndef MPNANNY_SERVER_DISPATCH_DISPATCHER_H_
#define MPNANNY_SERVER_DISPATCH_DISPATCHER_H_

#include <chrono>
#include <memory>
#include <string_view>

#include "base/json.h"
#include "server/dispatch/call_table.h"
#include "server/dispatch/legacy_session.h"
#include "server/dispatch/method_table.h"
#include "server/dispatch/worker_pool.h"
#include "server/transport/transport.h"

namespace mpnanny {

// One client: what it agreed on and which of its calls run. Its calls share ownership.
struct Connection {
  LegacySession legacy;
  ConnectionCalls calls;
};

struct DispatcherOptions {
  // Clients give a call up after 60 s (Claude Desktop, Cursor, the TypeScript SDK): handlers are
  // told to stop well before, and one that does not listen is answered for after `grace` more.
  std::chrono::milliseconds deadline{40'000};
  std::chrono::milliseconds grace{5'000};
  size_t threads = 4;
  size_t max_waiting_calls = 4096;
};

class Dispatcher {
 public:
  // `server_info`: our Implementation object (name, title, version …).
  Dispatcher(MethodTable methods, Json server_info, DispatcherOptions options = {});

  // Answers, now or later, through `sink`.
  void Handle(std::string_view text, const std::shared_ptr<Connection>& connection,
              const std::shared_ptr<MessageSink>& sink);

  // Waits until no call runs; false if that took longer.
  bool WaitUntilIdle(std::chrono::milliseconds at_most) { return running_.WaitUntilNone(at_most); }

  // Tells all calls to stop. Those that notice, and those that still wait for their turn, are
  // answered: the server is stopping.
  void StopCalls() { running_.StopAll(); }

  // Gives this same answer for the calls that have none yet, whatever they do.
  void AnswerForCalls();

 private:
  void HandleOne(Json json, const std::shared_ptr<Connection>& connection,
                 const std::shared_ptr<MessageSink>& sink, bool in_batch);
  void HandleBatch(Json batch, const std::shared_ptr<Connection>& connection,
                   const std::shared_ptr<MessageSink>& sink);
  void HandleRequest(RequestMessage request, const std::shared_ptr<Connection>& connection,
                     const std::shared_ptr<MessageSink>& sink, bool in_batch);
  void Start(const Method& method, Json params, const std::shared_ptr<Call>& call,
             const std::shared_ptr<Connection>& connection);
  void Finish(const Method& method, Call& call, Connection& connection, Outcome outcome) const;
  void AnswerOverdue(Call& call) const;

  const MethodTable methods_;
  const Json server_info_;
  const DispatcherOptions options_;
  RunningCalls running_;
  WorkerPool pool_;  // last: its threads end before what they use is destroyed
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DISPATCH_DISPATCHER_H_
