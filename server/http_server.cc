#include "server/http_server.h"

#include <algorithm>
#include <charconv>
#include <iostream>
#include <memory>
#include <utility>

#include "base/sockets.h"
#include "server/methods/methods.h"
#include "server/resource_watch.h"
#include "server/transport/http/listener.h"

namespace mpnanny {
namespace {

// Below so many a token can be guessed over a network.
constexpr size_t kLeastTokenCharacters = 16;

std::string Url(const std::string& host, int port) {
  const bool v6 = host.find(':') != std::string::npos;
  return "http://" + (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port) + kEndpointPath;
}

// As many connections as there are descriptors for: each takes a socket and an event, and tools
// open files.
HttpLimits Affordable(HttpLimits limits) {
  constexpr size_t kOthers = 128;
  const size_t descriptors = RaiseDescriptorLimit();
  const size_t most = descriptors > 2 * kOthers ? (descriptors - kOthers) / 2 : kOthers / 4;
  limits.connections = std::min(limits.connections, most);
  return limits;
}

// What runs; left behind as a whole if calls do not end.
struct Running {
  Running(const Registry& registry, const HttpServerOptions& options, const HttpLimits& limits)
      : dispatcher(MakeMethodTable(registry), registry.server_info, options.dispatcher),
        watch(registry, dispatcher.notices()),
        endpoint(dispatcher, registry,
                 {.access = {.bound_host = options.host,
                             .hosts = options.allow_hosts,
                             .origins = options.allow_origins,
                             .token = options.token},
                  .sessions = options.sessions,
                  .body_bytes = limits.body_bytes,
                  // Room is left for short calls, whoever listens.
                  .listeners = limits.connections - limits.connections / 8,
                  .silence = options.silence,
                  .stream = options.stream}),
        listener(limits, {.screen = [this](HttpExchange& e) { return endpoint.Screen(e); },
                          .serve = [this](HttpExchange& e) { endpoint.Serve(e); }}) {}

  Dispatcher dispatcher;
  ResourceWatch watch;
  Endpoint endpoint;
  HttpListener listener;  // last: its threads use the others
};

// True if all calls have ended.
bool Stop(Running& running, std::chrono::milliseconds patience) {
  running.listener.StopAccepting();
  running.dispatcher.StopListening();
  running.dispatcher.StopCalls();
  bool ended = running.dispatcher.WaitUntilIdle(patience);
  if (!ended) {
    running.dispatcher.AnswerForCalls();
    ended = running.dispatcher.WaitUntilIdle(patience);
  }
  running.endpoint.EndSessions();
  running.listener.WaitUntilClosed(patience);
  running.listener.Abort();
  return ended;
}

}  // namespace

Result<HostAndPort> ParseHostAndPort(std::string_view text) {
  const Error wrong =
      InvalidInput("'" + std::string(text) + "' is no HOST:PORT.",
                   "Examples: 127.0.0.1:8765, localhost:0 (a free port), [::1]:8765.");
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong;
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return wrong;
  }
  int port = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (host.empty() || digits.empty() || error != std::errc() ||
      end != digits.data() + digits.size() || port < 0 || port > 65535) {
    return wrong;
  }
  return HostAndPort{std::string(host), port};
}

Result<bool> RunHttpServer(const Registry& registry, const HttpServerOptions& options,
                           StopEvent& stop) {
  if (options.token.empty() && !IsLoopbackHost(options.host)) {
    return InvalidInput(
        "Other machines could connect to " + options.host + ", and no token is asked for.",
        "Give one with --token-file FILE or MPNANNY_TOKEN, or listen on 127.0.0.1 "
        "and reach it through a tunnel (ssh -L).");
  }
  if (options.token.size() < kLeastTokenCharacters && !IsLoopbackHost(options.host)) {
    return InvalidInput("The token has " + std::to_string(options.token.size()) +
                            " characters, and other machines that can connect to " + options.host +
                            " could try them all.",
                        "Give one of at least " + std::to_string(kLeastTokenCharacters) +
                            ": openssl rand -hex 32.");
  }
  const HttpLimits limits = Affordable(options.limits);
  auto running = std::make_unique<Running>(registry, options, limits);
  MPN_TRY_ASSIGN(const auto port, running->listener.Bind(options.host, options.port));
  running->listener.Start();
  std::string told = "listening on " + Url(options.host, port) + "\n";
  if (options.token.empty())
    told += "without a token every user of this machine can ask; --token-file FILE asks for one\n";
  std::cerr << told << std::flush;
  if (options.on_listening) options.on_listening(port);

  stop.Wait();
  if (Stop(*running, options.stop)) return true;
  static_cast<void>(running.release());
  return false;
}

}  // namespace mpnanny
