// A server on two descriptors: the core and the stdio transport put together, with an orderly end.
//
// Runs on the calling thread.
#ifndef MPNANNY_SERVER_STDIO_SERVER_H_
#define MPNANNY_SERVER_STDIO_SERVER_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

#include "base/descriptors.h"
#include "base/stop_event.h"
#include "server/dispatch/dispatcher.h"
#include "server/registry.h"
#include "server/transcript/recorder.h"
#include "server/transport/stdio.h"

namespace mpnanny {

struct StdioServerOptions {
  DispatcherOptions dispatcher = {};
  size_t max_line_bytes = kMaxLineBytes;
  // After the end of input, calls that still run get this long to answer, then they are told to
  // stop.
  std::chrono::milliseconds drain{2000};
  // What stopped calls get to notice; after that they are answered for.
  std::chrono::milliseconds stop{500};
  Recorder* recorder = nullptr;  // writes the session down; borrowed
};

// Serves until the input ends, `stop` is raised or the client no longer reads. False if calls are
// still at work then: the process must end without waiting for them (std::_Exit), since they use
// what the caller would destroy.
[[nodiscard]] bool RunStdioServer(const Registry& registry, ProtocolStreams streams,
                                  StopEvent& stop, const StdioServerOptions& options = {});

// The same for one client on any carrier: `feed` hands over its messages until there are no more,
// everything for it goes to `sink`.
[[nodiscard]] bool RunServer(const Registry& registry, const std::shared_ptr<MessageSink>& sink,
                             const std::function<StdioEnd(const MessageHandler&)>& feed,
                             StopEvent& stop, const StdioServerOptions& options = {});

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_STDIO_SERVER_H_
