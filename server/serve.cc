#include "server/serve.h"

#include <cstdlib>
#include <string>
#include <utility>

#include "base/data_files.h"
#include "base/descriptors.h"
#include "base/files.h"
#include "base/log.h"
#include "base/stop_event.h"
#include "server/http_server.h"
#include "server/product.h"
#include "server/stdio_server.h"

namespace mpnanny {
namespace {

int Refuse(const Error& error) {
  LogError("Cannot serve: " + error.Text());
  return 2;
}

// The bearer token that clients must send; empty for none.
Result<std::string> ReadToken(const ServeOptions& options) {
  const char* const given = std::getenv("MPNANNY_TOKEN");
  std::string token = given ? given : "";
  if (!options.token_file.empty()) {
    auto text = ReadFile(options.token_file, 4096);
    if (!text) return text.error();
    token = *std::move(text);
    token.erase(token.find_last_not_of(" \t\r\n") + 1);
    if (token.empty()) {
      return InvalidInput("The token file " + options.token_file + " is empty.",
                          "Make one: openssl rand -hex 32 > FILE");
    }
  }
  for (const char c : token) {
    if (c > ' ' && c < 127) continue;
    return InvalidInput("The token holds a character that HTTP headers do not carry.",
                        "Use letters, digits and -._~+/=, on one line.");
  }
  return token;
}

Result<bool> ServeHttp(const ServeOptions& options, const Registry& registry, StopEvent& stop) {
  auto where = ParseHostAndPort(options.http);
  if (!where) return where.error();
  auto token = ReadToken(options);
  if (!token) return token.error();
  return RunHttpServer(registry,
                       {.host = where->host,
                        .port = where->port,
                        .allow_hosts = options.allow_hosts,
                        .allow_origins = options.allow_origins,
                        .token = *std::move(token)},
                       stop);
}

}  // namespace

int Serve(const ServeOptions& options) {
  StopEvent stop;
  stop.BindSignals();
  // First of all: from here on nothing but the protocol reaches the client.
  const auto streams = options.http.empty() ? TakeStandardStreams() : ProtocolStreams{};
  if (!streams) return Refuse(streams.error());
  const auto data = DataFiles::Create(options.data_dir);
  if (!data) return Refuse(data.error());
  const auto roots = AllowedRoots::Create(options.roots);
  if (!roots) return Refuse(roots.error());

  const Registry registry = ProductRegistry({*roots, *data, options.allow_exec});
  if (options.http.empty()) {
    if (!RunStdioServer(registry, *streams, stop)) std::_Exit(0);
    return 0;
  }
  const auto ended = ServeHttp(options, registry, stop);
  if (!ended) return Refuse(ended.error());
  if (!*ended) std::_Exit(0);
  return 0;
}

}  // namespace mpnanny
