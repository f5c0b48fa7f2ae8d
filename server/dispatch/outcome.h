// What a method handler answers, before it is written for a revision.
//
// Plain values. A later kind of answer (asking the client for input) joins this variant and nothing
// else.
#ifndef MPNANNY_SERVER_DISPATCH_OUTCOME_H_
#define MPNANNY_SERVER_DISPATCH_OUTCOME_H_

#include <optional>
#include <utility>
#include <variant>

#include "base/json.h"
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

using Outcome = std::variant<MethodResult, WireError, Stopped>;

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DISPATCH_OUTCOME_H_
