// One client: what it agreed on, which of its calls run, what we have asked it.
//
// A transport makes one a client (stdio: a process; HTTP: a legacy session, or a single modern
// request, which remembers nothing) and shares it with the calls that run. Thread-safe.
#ifndef MPNANNY_SERVER_DISPATCH_CONNECTION_H_
#define MPNANNY_SERVER_DISPATCH_CONNECTION_H_

#include <memory>
#include <utility>

#include "server/dispatch/call_table.h"
#include "server/dispatch/client_requests.h"
#include "server/dispatch/legacy_session.h"
#include "server/transport/transport.h"

namespace mpnanny {

struct Connection {
  // `notices`: where messages go that belong to no request of the client (a legacy client's list
  // changes and resource updates); null where there is no such way.
  explicit Connection(std::shared_ptr<MessageSink> notices_sink = nullptr)
      : notices(std::move(notices_sink)) {}

  const std::shared_ptr<MessageSink> notices;
  LegacySession legacy;
  ConnectionCalls calls;
  ClientRequests client_requests;
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DISPATCH_CONNECTION_H_
