// mpnanny-conformance: the product's core and transports with the official suite's fixtures. It
// takes the transport options of `mpnanny serve`.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <string>

#include "base/descriptors.h"
#include "base/stop_event.h"
#include "server/http_server.h"
#include "server/stdio_server.h"
#include "tests/conformance/fixtures.h"

namespace mpnanny::conformance {
namespace {

int Refuse(const Error& error) {
  std::cerr << "Cannot serve: " << error.Text() << "\n";
  return 2;
}

int ServeHttp(const Registry& registry, const std::string& address, StopEvent& stop) {
  const auto where = ParseHostAndPort(address);
  if (!where) return Refuse(where.error());
  HttpServerOptions options;
  options.host = where->host;
  options.port = where->port;
  const auto ended = RunHttpServer(registry, options, stop);
  if (!ended) return Refuse(ended.error());
  if (!*ended) std::_Exit(0);
  return 0;
}

int Serve(const std::string& http) {
  StopEvent stop;
  stop.BindSignals();
  // First of all: from here on nothing but the protocol reaches the client.
  const auto streams = http.empty() ? TakeStandardStreams() : ProtocolStreams{};
  if (!streams) return Refuse(streams.error());
  const Registry registry = FixtureRegistry();
  if (!http.empty()) return ServeHttp(registry, http, stop);
  if (!RunStdioServer(registry, *streams, stop)) std::_Exit(0);
  return 0;
}

}  // namespace
}  // namespace mpnanny::conformance

int main(int argc, char** argv) {
  CLI::App parser("A server for the MCP conformance suite, over stdin and stdout.");
  std::string http;
  parser.add_option("--http", http, "Serve over HTTP instead; port 0 takes a free one")
      ->type_name("HOST:PORT");
  CLI11_PARSE(parser, argc, argv);
  return mpnanny::conformance::Serve(http);
}
