#include "server/http/endpoint.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "server/http/request_head.h"
#include "server/protocol/error_codes.h"
#include "server/protocol/jsonrpc.h"
#include "server/protocol/versions.h"
#include "server/transport/http/sse.h"

namespace mpnanny {
namespace {

using Next = EventStream::Next;

HttpReply JsonReply(int status, std::string body) {
  return {.status = status, .body = std::move(body), .content_type = "application/json"};
}

// The HTTP status of an answer to a message. Legacy clients find the errors of their requests in
// the body of a 200; a 400 says that this was no request.
int StatusOf(int error_code, bool legacy, bool request) {
  switch (error_code) {
    case kParseError:
      return 400;
    case kInvalidRequest:
      return legacy && request ? 200 : 400;
    case kMethodNotFound:
      return legacy ? 200 : 404;
    case kHeaderMismatch:
    case kMissingClientCapability:
    case kUnsupportedProtocolVersion:
      return legacy ? 200 : 400;
    default:
      return 200;
  }
}

bool IsRequest(const Json& message) {
  return message.is_object() && message.contains("id") && message.contains("method");
}

// Whether the core owes an answer to this message, or to one of this batch.
bool WantsAnswer(const Json& message) {
  if (!message.is_array()) return IsRequest(message);
  return std::any_of(message.begin(), message.end(), IsRequest);
}

bool IsCall(const Json& message, std::string_view method) {
  return IsRequest(message) && message["method"] == method;
}

std::optional<RequestId> IdOf(const Json& message) {
  if (!message.is_object() || !message.contains("id")) return std::nullopt;
  return RequestId::FromJson(message["id"]);
}

MirroredArguments MirroredArgumentsOf(const Registry& registry) {
  MirroredArguments all;
  for (const ServedTool& tool : registry.tools) {
    auto found = FindMirroredArguments(tool.definition.input_schema);
    if (!found.empty()) all.emplace(tool.definition.name, std::move(found));
  }
  return all;
}

// A place among the streams that may stay open for ever; null if all are taken.
std::shared_ptr<void> TakePlace(const std::shared_ptr<std::atomic<size_t>>& taken, size_t most) {
  if (taken->fetch_add(1) >= most) {
    taken->fetch_sub(1);
    return nullptr;
  }
  return std::shared_ptr<void>(taken.get(), [taken](void*) { taken->fetch_sub(1); });
}

HttpReply TooManyListeners() {
  return Busy("Too many streams are open. Close some, or try again later.");
}

bool Primes(const Session& session) {
  const auto agreed = session.connection()->legacy.agreed();
  return agreed && agreed->revision >= Revision::k2025_11_25;
}

}  // namespace

Endpoint::Endpoint(Dispatcher& dispatcher, const Registry& registry, EndpointOptions options)
    : dispatcher_(dispatcher),
      options_(std::move(options)),
      access_(options_.access),
      mirrored_(MirroredArgumentsOf(registry)),
      sessions_(options_.sessions,
                [&dispatcher](Session& session) {
                  dispatcher.Disconnect(session.connection());
                  session.EndStreams();
                }),
      listeners_(std::make_shared<std::atomic<size_t>>(0)) {}

bool Endpoint::Screen(HttpExchange& exchange) {
  if (auto reply = CheckBrowser(exchange, access_)) {
    exchange.Reply(*std::move(reply));
    return true;
  }
  auto refusal = CheckRequestHead(exchange, access_, kEndpointPath, options_.body_bytes);
  if (!refusal) return false;
  exchange.Reply(*std::move(refusal));
  return true;
}

void Endpoint::Serve(HttpExchange& exchange) {
  if (exchange.method() == "POST") return Post(exchange);
  return exchange.method() == "GET" ? Get(exchange) : Delete(exchange);
}

void Endpoint::Post(HttpExchange& exchange) {
  auto message = ParseJson(exchange.body(), kMaxJsonDepth, DuplicateKeys::kRefuse);
  if (!message) {
    return exchange.Reply(
        ErrorReply(400, {kParseError, "This message is " + message.error().Text(), nullptr}));
  }
  // A request that says itself that it is modern has no session, whatever its headers say.
  const bool stateless = IsModernPost(*message, exchange.Header(kVersionHeader),
                                      exchange.Header(kSessionHeader).has_value());
  return stateless ? PostModern(exchange, *std::move(message))
                   : PostLegacy(exchange, *std::move(message));
}

void Endpoint::PostModern(HttpExchange& exchange, Json message) {
  if (IsJsonRpcRequest(message)) {
    std::string repeated;
    const HeaderLookup header = [&](const std::string& name) {
      if (exchange.HeaderCount(name) > 1) repeated = name;
      return exchange.Header(name);
    };
    auto wrong = CheckModernRequest(message, header, mirrored_);
    if (!wrong && !repeated.empty()) {
      wrong = WireError{kHeaderMismatch, "The header " + repeated + " stands twice."};
    }
    if (wrong) return exchange.Reply(ErrorReply(400, *wrong, IdOf(message)));
  } else if (const auto version = exchange.Header(kVersionHeader);
             version && !IsLegacyRevision(*version) &&
             *version != RevisionName(Revision::k2026_07_28)) {
    return exchange.Reply(ErrorReply(
        400, {kUnsupportedProtocolVersion,
              "MCP-Protocol-Version '" + EscapeControl(*version, 100) + "' is not supported.",
              {{"supported", SupportedModernRevisions()}, {"requested", *version}}}));
  }
  Run(exchange, std::move(message), std::make_shared<Connection>(), nullptr);
}

void Endpoint::PostLegacy(HttpExchange& exchange, Json message) {
  if (!IsCall(message, "initialize") || exchange.Header(kSessionHeader)) {
    const Sessions::Use session = FindSession(exchange);
    if (session) Run(exchange, std::move(message), session->connection(), session);
    return;
  }
  const Sessions::Use session = sessions_.Create();
  Run(exchange, std::move(message), session->connection(), session);
}

Sessions::Use Endpoint::FindSession(HttpExchange& exchange) {
  const auto refuse = [&](int status, std::string why) {
    exchange.Reply(ErrorReply(status, {kInvalidRequest, std::move(why), nullptr}));
    return nullptr;
  };
  const auto id = exchange.Header(kSessionHeader);
  if (!id) {
    return refuse(400,
                  "The header Mcp-Session-Id is missing. Send initialize first, or put the fields "
                  "of revision 2026-07-28 into _meta.");
  }
  Sessions::Use session = sessions_.Find(*id);
  if (!session) {
    return refuse(404, "There is no such session (any more). Send initialize for a new one.");
  }
  const auto version = exchange.Header(kVersionHeader);
  if (version && !IsLegacyRevision(*version)) {
    return refuse(400, "MCP-Protocol-Version '" + EscapeControl(*version, 100) +
                           "' is not one that a session can have.");
  }
  return session;
}

Next Endpoint::AwaitFirst(HttpExchange& exchange, AnswerStream::Source& source,
                          StreamMessage& first) {
  Next next = source.events->Take(source.reader, first);
  if (next != Next::kNothing) return next;
  source.reader = source.events->Attach(exchange.wake());
  const auto until = SocketClock::now() + options_.silence;
  while (true) {
    next = source.events->Take(source.reader, first);
    if (next != Next::kNothing) return next;
    const PeerState peer = exchange.Wait(until);
    if (peer == PeerState::kHalfClosed) source.half_closed = true;
    source.gone = peer == PeerState::kGone || (source.half_closed && source.ends_with_half_close);
    if (source.gone) return Next::kCut;
    if (peer == PeerState::kTimedOut) return Next::kNothing;
  }
}

void Endpoint::Run(HttpExchange& exchange, Json message,
                   const std::shared_ptr<Connection>& connection, const Sessions::Use& session) {
  const bool wants_answer = WantsAnswer(message);
  const bool request = IsJsonRpcRequest(message);
  const bool begins_session = session && !connection->legacy.agreed();
  std::shared_ptr<void> place;
  if (IsCall(message, "subscriptions/listen")) {
    place = TakePlace(listeners_, options_.listeners);
    if (!place) return exchange.Reply(TooManyListeners());
  }

  const auto events = std::make_shared<EventStream>();
  dispatcher_.HandleMessage(std::move(message), connection, std::make_shared<StreamSink>(events));

  AnswerStream::Source source{.events = events, .ends_with_half_close = !session};
  if (!session) source.on_gone = [this, connection] { dispatcher_.Disconnect(connection); };
  StreamMessage first;
  const Next next =
      wants_answer ? AwaitFirst(exchange, source, first) : events->Take(source.reader, first);
  if (next == Next::kMessage && first.is_response) {
    HttpReply reply =
        JsonReply(StatusOf(first.error_code, session != nullptr, request), std::move(first.text));
    if (begins_session && connection->legacy.agreed()) {
      if (!sessions_.Admit(session)) {
        return exchange.Reply(Busy("Too many sessions are in use. Try again later."));
      }
      reply.headers.emplace_back(kSessionHeader, session->id());
    }
    events->Detach(source.reader);
    return exchange.Reply(std::move(reply));
  }
  if (!wants_answer) {
    events->Detach(source.reader);
    return exchange.Reply({.status = 202});
  }
  if (source.reader == 0) source.reader = events->Attach(exchange.wake());
  if (next == Next::kMessage) source.first = std::move(first);
  // A client that is gone has no id to come back with, and one that has half closed is hardly
  // there. Where nothing was sent and nothing will be (the client took its call back) an id would
  // make it come back for ever.
  if (session && next != Next::kCut && next != Next::kEnd && !source.half_closed) {
    source.number = session->Keep(events, source.first ? &*source.first : nullptr);
    source.primes = source.number && Primes(*session);
  }
  source.holds = std::make_shared<std::pair<std::shared_ptr<void>, Sessions::Use>>(place, session);
  ReplyWithEvents(exchange, std::move(source));
}

void Endpoint::ReplyWithEvents(HttpExchange& exchange, AnswerStream::Source source) {
  auto stream = std::make_shared<AnswerStream>(std::move(source), options_.stream);
  exchange.ReplyWithStream(AnswerStream::Headers(),
                           [stream](HttpStream& out) { return stream->Write(out); });
}

void Endpoint::Get(HttpExchange& exchange) {
  if (!exchange.Header(kSessionHeader)) return exchange.Reply(WrongMethod("POST"));
  const Sessions::Use session = FindSession(exchange);
  if (!session) return;
  const auto place = TakePlace(listeners_, options_.listeners);
  if (!place) return exchange.Reply(TooManyListeners());

  const auto last = exchange.Header(kLastEventHeader);
  const auto from = last ? ParseEventId(*last) : EventId{kOwnStream, 0};
  const auto events = from ? session->Find(from->stream) : nullptr;
  std::optional<uint64_t> reader;
  if (events) {
    reader =
        last ? events->AttachAfter(exchange.wake(), from->number) : events->Attach(exchange.wake());
  }
  if (!reader) {
    return exchange.Reply(ErrorReply(
        400, {kInvalidRequest,
              "Last-Event-ID '" + EscapeControl(last.value_or(""), 100) +
                  "' is of no stream that is kept, or what came after it is lost. Open a new one "
                  "without this header.",
              nullptr}));
  }
  if (events->finished()) {
    // To clients the one answer that means there is no stream, and not that it should be tried
    // again.
    events->Detach(*reader);
    return exchange.Reply(WrongMethod("POST, DELETE"));
  }
  AnswerStream::Source source{.events = events};
  source.reader = *reader;
  source.number = from->stream;
  source.primes = Primes(*session);
  source.holds = std::make_shared<std::pair<std::shared_ptr<void>, Sessions::Use>>(place, session);
  ReplyWithEvents(exchange, std::move(source));
}

void Endpoint::Delete(HttpExchange& exchange) {
  if (!exchange.Header(kSessionHeader)) return exchange.Reply(WrongMethod("POST"));
  const Sessions::Use session = FindSession(exchange);
  if (!session) return;
  sessions_.End(session->id());
  exchange.Reply({.status = 200});
}

}  // namespace mpnanny
