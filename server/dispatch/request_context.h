// What a method handler may use beside its parameters.
//
// Made for one request; borrowed parts outlive it. Used by one thread, but `progress`, `cancel` and
// `call` may be copied into others that end before the handler does.
#ifndef MPNANNY_SERVER_DISPATCH_REQUEST_CONTEXT_H_
#define MPNANNY_SERVER_DISPATCH_REQUEST_CONTEXT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/cancel.h"
#include "base/json.h"
#include "server/dispatch/call.h"
#include "server/dispatch/connection.h"
#include "server/dispatch/jobs.h"
#include "server/dispatch/notice_hub.h"
#include "server/protocol/versions.h"

namespace mpnanny {

// What the client sent along to answer an earlier InputRequired of this very request.
struct ClientInput {
  Json responses = Json::object();  // key -> the client's result; keys that nobody asked for too
  Json state = nullptr;             // InputRequired::state, unaltered; null in the first round
};

struct RequestContext {
  Revision revision;
  const Json& client_capabilities;
  CancelToken cancel;
  // Null when the client asked for no progress. Values that do not grow are dropped.
  std::function<void(double progress, std::optional<double> total, const std::string& message)>
      progress;
  const ClientInput& input;
  const std::shared_ptr<Call>& call;              // Log(), SuspendStream(), MayOutliveItsDeadline()
  const std::shared_ptr<Connection>& connection;  // legacy state, for the methods that define it
  NoticeHub& notices;                             // tells listeners what changed
  Jobs& jobs;                                     // calls that went on after their first answer
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DISPATCH_REQUEST_CONTEXT_H_
