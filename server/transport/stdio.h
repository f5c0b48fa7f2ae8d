// The stdio transport: one JSON message a line, UTF-8, over two descriptors.
//
// Run() reads on the calling thread. Writing is serialised by one lock and may overlap reading. The
// descriptors and the stop event are borrowed and must outlive the transport and every sink that it
// gave out.
#ifndef MPNANNY_SERVER_TRANSPORT_STDIO_H_
#define MPNANNY_SERVER_TRANSPORT_STDIO_H_

#include <cstddef>
#include <memory>

#include "base/descriptors.h"
#include "base/stop_event.h"
#include "server/transport/transport.h"

namespace mpnanny {

// Longest line that is read. A longer one is answered with an error and skipped up to its end.
inline constexpr size_t kMaxLineBytes = 16u << 20;

enum class StdioEnd {
  kEndOfInput,  // the client closed our stdin: answers may still be awaited
  kStopped,     // the stop event: a signal, or the client no longer reads
};

class StdioTransport {
 public:
  StdioTransport(ProtocolStreams streams, StopEvent& stop, size_t max_line_bytes = kMaxLineBytes);

  // Hands over every line until the input ends or the stop event is raised. Blank lines are passed
  // over; a last line without a newline counts.
  StdioEnd Run(const MessageHandler& handler);

  // Where every message goes, whatever it belongs to.
  std::shared_ptr<MessageSink> sink() const;

 private:
  class Sink;

  ProtocolStreams streams_;
  StopEvent& stop_;
  size_t max_line_bytes_;
  std::shared_ptr<Sink> sink_;  // shared with the calls that still have to answer
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_TRANSPORT_STDIO_H_
