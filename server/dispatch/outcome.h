// What a method handler answers, before it is written for a revision.
//
// Plain values. A later kind of answer joins this variant and nothing else.
#ifndef MPNANNY_SERVER_DISPATCH_OUTCOME_H_
#define MPNANNY_SERVER_DISPATCH_OUTCOME_H_

#include <optional>
#include <utility>
#include <variant>

#include "base/json.h"
#include "server/dispatch/listen_filter.h"
#include "server/protocol/codec.h"
#include "server/protocol/jsonrpc.h"

namespace mpnanny {

struct MethodResult {
  Json body = Json::object();
  std::optional<CacheHint> cache = std::nullopt;  // only for the results that have one
};

// The work heeded its cancel token. Whether that is answered is not the handler's to know: not if
// the client took the request back, but if the server is stopping.
struct Stopped {};

// The handler needs something from the client first and will be called again, with the client's
// responses and `state` in RequestContext::input. A modern client gets this as its result and
// repeats the request; a legacy client is asked by requests of ours. For tools/call, prompts/get
// and resources/read. A request that the client did not declare the capability for becomes error
// -32021.
struct InputRequired {
  Json requests = Json::object();  // key -> {"method": "elicitation/create" …, "params": {…}}
  Json state = nullptr;            // comes back as it is, whatever the client does; null for none
};

// The request stays open and gets notices until the client or the server ends it
// (subscriptions/listen).
struct Listening {
  ListenFilter filter;  // what is honoured of what was asked for
};

using Outcome = std::variant<MethodResult, WireError, Stopped, InputRequired, Listening>;

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DISPATCH_OUTCOME_H_
