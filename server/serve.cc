#include "server/serve.h"

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <string>
#include <utility>

#include "base/data_files.h"
#include "base/descriptors.h"
#include "base/files.h"
#include "base/log.h"
#include "base/python.h"
#include "base/stop_event.h"
#include "base/text.h"
#include "server/http_server.h"
#include "server/product.h"
#include "server/stdio_server.h"
#include "server/token_file.h"
#include "server/transcript/recorder.h"
#include "server/transcript/replay.h"

namespace mpnanny {
namespace {

int Refuse(const Error& error) {
  LogError("Cannot serve: " + error.Text());
  return 2;
}

// The bearer token that clients must send; empty for none.
Result<std::string> ReadToken(const ServeOptions& options) {
  if (!options.token_file.empty()) return ReadTokenFile(options.token_file);
  const char* const given = std::getenv("MPNANNY_TOKEN");
  return ReadTokenText(given ? given : "", "MPNANNY_TOKEN");
}

Result<bool> ServeHttp(const ServeOptions& options, const Registry& registry, StopEvent& stop) {
  MPN_TRY_ASSIGN(auto where, ParseHostAndPort(options.http));
  auto token = ReadToken(options);
  if (!token) return token.error();
  return RunHttpServer(registry,
                       {.host = where.host,
                        .port = where.port,
                        .allow_hosts = options.allow_hosts,
                        .allow_origins = options.allow_origins,
                        .token = *std::move(token)},
                       stop);
}

}  // namespace

int Serve(const ServeOptions& options) {
  UsePython(options.python);
  StopEvent stop;
  stop.BindSignals();
  // First of all: from here on nothing but the protocol reaches the client.
  const auto streams = options.http.empty() ? TakeStandardStreams() : ProtocolStreams{};
  if (!streams) return Refuse(streams.error());
  const auto data = DataFiles::Create(options.data_dir);
  if (!data) return Refuse(data.error());
  const auto roots = AllowedRoots::Create(options.roots);
  if (!roots) return Refuse(roots.error());

  const Registry registry = ProductRegistry(
      {*roots, *data, options.allow_exec, options.allow_gpu, options.allow_weaker_sandbox});
  if (options.http.empty()) {
    std::unique_ptr<Recorder> recorder;
    if (!options.record.empty()) {
      auto made = Recorder::Create(options.record, roots->roots());
      if (!made) return Refuse(made.error());
      recorder = *std::move(made);
    }
    if (!RunStdioServer(registry, *streams, stop, {.recorder = recorder.get()})) std::_Exit(0);
    return 0;
  }
  const auto ended = ServeHttp(options, registry, stop);
  if (!ended) return Refuse(ended.error());
  if (!*ended) std::_Exit(0);
  return 0;
}

int ReplayFile(const ServeOptions& options, const std::string& file, std::ostream& out) {
  constexpr uint64_t kMostTranscriptBytes = 256u << 20;
  const auto data = DataFiles::Create(options.data_dir);
  if (!data) return Refuse(data.error());
  const auto roots = AllowedRoots::Create(options.roots);
  if (!roots) return Refuse(roots.error());
  const auto text = ReadFile(file, kMostTranscriptBytes);
  if (!text) return Refuse(text.error());
  const Registry registry = ProductRegistry(
      {*roots, *data, options.allow_exec, options.allow_gpu, options.allow_weaker_sandbox});
  const auto report = Replay(registry, *text, {.roots = roots->roots()});
  const std::string shown = EscapeControl(file);
  if (!report)
    return Refuse(InvalidInput(shown + ", " + report.error().message, report.error().hint));
  for (const std::string& difference : report->differences) {
    out << shown << ":" << EscapeControl(difference) << "\n";
  }
  const size_t count = report->differences.size();
  out << report->sent << " messages sent, " << report->compared << " answers compared, "
      << (count ? std::to_string(count) : "no") << " difference" << (count == 1 ? "" : "s")
      << ".\n";
  const int code = count ? 1 : 0;
  if (report->stuck) {
    out.flush();
    std::_Exit(code);
  }
  return code;
}

}  // namespace mpnanny
