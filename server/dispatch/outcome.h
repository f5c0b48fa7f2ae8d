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

struct NoAnswer {};  // the client took the request back

using Outcome = std::variant<MethodResult, WireError, NoAnswer>;

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DISPATCH_OUTCOME_H_
