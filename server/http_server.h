// A server on a TCP port: the core and Streamable HTTP put together, with an orderly end.
//
// The calling thread waits for the stop event; connections have threads of their own.
#ifndef MPNANNY_SERVER_HTTP_SERVER_H_
#define MPNANNY_SERVER_HTTP_SERVER_H_

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/stop_event.h"
#include "server/dispatch/dispatcher.h"
#include "server/http/endpoint.h"
#include "server/registry.h"
#include "server/transport/http/connection.h"

namespace mpnanny {

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;                               // 0: a free one
  std::vector<std::string> allow_hosts = {};  // beside this machine's own names
  std::vector<std::string> allow_origins = {};
  std::string token =
      "";  // empty: none is asked for, which only this machine's own clients may use
  DispatcherOptions dispatcher = {};
  HttpLimits limits = {};
  SessionLimits sessions = {};
  std::chrono::milliseconds silence = EndpointOptions().silence;
  AnswerStreamOptions stream = {};
  // What stopped calls get to notice, what answers get to be written; after that they are cut off.
  std::chrono::milliseconds stop{500};
  // Beside the line on stderr, for who runs a server in its own process.
  std::function<void(int port)> on_listening = nullptr;
};

// Serves until `stop` is raised. An error if it cannot begin: the port is taken, or others could
// connect and no token is asked for. False if calls are still at work at the end: the process must
// then end without waiting for them (std::_Exit), since they use what the caller would destroy.
Result<bool> RunHttpServer(const Registry& registry, const HttpServerOptions& options,
                           StopEvent& stop);

// "HOST:PORT", "[IPV6]:PORT" -> host (without brackets) and port.
struct HostAndPort {
  std::string host;
  int port = 0;
};
Result<HostAndPort> ParseHostAndPort(std::string_view text);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_HTTP_SERVER_H_
