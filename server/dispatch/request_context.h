// What a method handler may use beside its parameters.
//
// Made for one request; borrowed parts outlive it. Used by one thread, but `progress` and `cancel`
// may be copied into others that end before the handler does.
#ifndef MPNANNY_SERVER_DISPATCH_REQUEST_CONTEXT_H_
#define MPNANNY_SERVER_DISPATCH_REQUEST_CONTEXT_H_

#include <functional>
#include <optional>
#include <string>

#include "base/cancel.h"
#include "base/json.h"
#include "server/dispatch/legacy_session.h"
#include "server/protocol/versions.h"

namespace mpnanny {

struct RequestContext {
  Revision revision;
  Json client_capabilities;
  CancelToken cancel;
  // Null when the client asked for no progress. Values that do not grow are dropped.
  std::function<void(double progress, std::optional<double> total, const std::string& message)>
      progress;
  LegacySession& legacy;  // for `initialize` only
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DISPATCH_REQUEST_CONTEXT_H_
