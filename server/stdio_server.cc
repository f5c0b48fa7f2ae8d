#include "server/stdio_server.h"

#include <memory>
#include <utility>

#include "server/methods/methods.h"
#include "server/resource_watch.h"

namespace mpnanny {
namespace {

using std::chrono::milliseconds;

// Lets running calls answer for as long as `at_most`, but not past the stop event.
bool Drain(Dispatcher& dispatcher, const StopEvent& stop, milliseconds at_most) {
  const auto end = std::chrono::steady_clock::now() + at_most;
  while (!stop.requested() && std::chrono::steady_clock::now() < end) {
    if (dispatcher.WaitUntilIdle(milliseconds(20))) return true;
  }
  return dispatcher.WaitUntilIdle(milliseconds(0));
}

}  // namespace

bool RunStdioServer(const Registry& registry, ProtocolStreams streams, StopEvent& stop,
                    const StdioServerOptions& options) {
  StdioTransport transport(streams, stop, options.max_line_bytes);
  return RunServer(
      registry, transport.sink(),
      [&](const MessageHandler& handler) { return transport.Run(handler); }, stop, options);
}

bool RunServer(const Registry& registry, const std::shared_ptr<MessageSink>& sink,
               const std::function<StdioEnd(const MessageHandler&)>& feed, StopEvent& stop,
               const StdioServerOptions& options) {
  // Not on the stack: if calls do not end, it is left behind with them.
  auto dispatcher = std::make_unique<Dispatcher>(MakeMethodTable(registry), registry.server_info,
                                                 options.dispatcher);
  ResourceWatch watch(registry, dispatcher->notices());
  Recorder* const recorder = options.recorder;
  const std::shared_ptr<MessageSink> out = recorder ? recorder->Wrap(sink) : sink;
  const auto connection = std::make_shared<Connection>(out);
  const StdioEnd end = feed([&](std::string_view text, const std::shared_ptr<MessageSink>&) {
    if (recorder) recorder->Received(text);
    dispatcher->Handle(text, connection, out);
  });
  if (recorder) recorder->Ended();
  dispatcher->StopListening();
  const bool idle = end == StdioEnd::kEndOfInput && Drain(*dispatcher, stop, options.drain);
  dispatcher->StopCalls();  // among them those that wait for the client, which cannot answer now
  if (idle || dispatcher->WaitUntilIdle(options.stop)) return true;
  stop.Request();  // a call that is stuck in writing gives up now
  dispatcher->AnswerForCalls();
  if (dispatcher->WaitUntilIdle(options.stop)) return true;
  static_cast<void>(dispatcher.release());
  return false;
}

}  // namespace mpnanny
