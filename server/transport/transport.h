// What a transport and the core owe each other.
//
// A transport hands every incoming message, whole, to its MessageHandler, on one thread a
// connection and in the order of arrival. With it goes a sink for everything that this message
// causes: answers, progress, errors. The handler returns soon (long work goes elsewhere) and the
// sink may be used later and from any thread, until it is let go of. A sink never throws and never
// calls back into the core.
#ifndef MPNANNY_SERVER_TRANSPORT_TRANSPORT_H_
#define MPNANNY_SERVER_TRANSPORT_TRANSPORT_H_

#include <functional>
#include <memory>
#include <string_view>

#include "base/json.h"

namespace mpnanny {

class MessageSink {
 public:
  virtual ~MessageSink() = default;

  // Sends one JSON-RPC message (or batch). Messages never overlap each other. A peer that is gone
  // is not an error: what is sent to it vanishes.
  virtual void Send(const Json& message) = 0;

  // Ends what carries the messages now; later ones wait until the client asks for them. Only the
  // resumable streams of HTTP's legacy sessions can do that, the others carry on.
  virtual void Suspend() {}
};

// `text`: one message as it came, without framing; only valid during the call.
using MessageHandler =
    std::function<void(std::string_view text, const std::shared_ptr<MessageSink>& sink)>;

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_TRANSPORT_TRANSPORT_H_
