// Pages of a list that does not change while the process runs.
//
// Free functions without state.
#ifndef MPNANNY_SERVER_METHODS_PAGING_H_
#define MPNANNY_SERVER_METHODS_PAGING_H_

#include <cstddef>
#include <string>
#include <variant>

#include "base/json.h"
#include "server/protocol/jsonrpc.h"

namespace mpnanny {

inline constexpr size_t kPageItems = 200;

// {"<list>": [the page], "nextCursor": …}: the items of `items` (an array) from where params.cursor
// says. A cursor that we did not give out for this list is error -32602.
std::variant<Json, WireError> Page(const std::string& list, const Json& items, const Json& params);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_METHODS_PAGING_H_
