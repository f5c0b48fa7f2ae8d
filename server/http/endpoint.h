// The MCP endpoint of Streamable HTTP: both eras at one path.
//
// Decides for each HTTP request which era it belongs to, whether its headers hold, and how it is
// answered: as one JSON body or as a stream of events. Modern requests are served each by itself;
// legacy ones in sessions. Borrows the dispatcher. Thread-safe: the connections' threads call it.
#ifndef MPNANNY_SERVER_HTTP_ENDPOINT_H_
#define MPNANNY_SERVER_HTTP_ENDPOINT_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "server/dispatch/dispatcher.h"
#include "server/http/sessions.h"
#include "server/registry.h"
#include "server/transport/http/access_rules.h"
#include "server/transport/http/answer_stream.h"
#include "server/transport/http/exchange.h"
#include "server/transport/http/header_rules.h"

namespace mpnanny {

inline constexpr char kEndpointPath[] = "/mcp";

struct EndpointOptions {
  AccessSettings access;
  SessionLimits sessions = {};
  size_t body_bytes = 4u << 20;
  size_t listeners = 448;  // streams that may stay open for ever
  // A request without any message for so long is answered by a stream, whose comments show that the
  // server is at work.
  std::chrono::milliseconds silence{5'000};
  AnswerStreamOptions stream = {};
};

class Endpoint {
 public:
  Endpoint(Dispatcher& dispatcher, const Registry& registry, EndpointOptions options);

  // True: the request is refused by its head, and has been answered.
  bool Screen(HttpExchange& exchange);
  void Serve(HttpExchange& exchange);

  // Ends all sessions and their streams.
  void EndSessions() { sessions_.EndAll(); }

 private:
  void Post(HttpExchange& exchange);
  void PostModern(HttpExchange& exchange, Json message);
  void PostLegacy(HttpExchange& exchange, Json message);
  void Get(HttpExchange& exchange);
  void Delete(HttpExchange& exchange);
  // The session that the headers name; null if that has been answered with an error.
  Sessions::Use FindSession(HttpExchange& exchange);
  // Hands the message to the core and answers with what comes back. No session: a modern request.
  void Run(HttpExchange& exchange, Json message, const std::shared_ptr<Connection>& connection,
           const Sessions::Use& session);
  // The first message, or why there is none, for as long as the client may be kept in silence.
  EventStream::Next AwaitFirst(HttpExchange& exchange, AnswerStream::Source& source,
                               StreamMessage& first);
  void ReplyWithEvents(HttpExchange& exchange, AnswerStream::Source source);

  Dispatcher& dispatcher_;
  const EndpointOptions options_;
  const AccessRules access_;
  const MirroredArguments mirrored_;
  Sessions sessions_;
  const std::shared_ptr<std::atomic<size_t>> listeners_;
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_HTTP_ENDPOINT_H_
