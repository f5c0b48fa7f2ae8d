// What is asked of a request before its body is read, and the refusals.
//
// Free functions; safe from any thread.
#ifndef MPNANNY_SERVER_HTTP_REQUEST_HEAD_H_
#define MPNANNY_SERVER_HTTP_REQUEST_HEAD_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "server/protocol/jsonrpc.h"
#include "server/transport/http/access_rules.h"
#include "server/transport/http/exchange.h"

namespace mpnanny {

// The answer to a browser that asks whether a page of an allowed origin may send a request here;
// nullopt if this is no such question. Also lets such a page read the answer to any request.
std::optional<HttpReply> CheckBrowser(HttpExchange& exchange, const AccessRules& access);

// The answer to a request that may not be served: 401, 403, 404, 405, 406, 411, 413, 415 or 503.
std::optional<HttpReply> CheckRequestHead(const HttpExchange& exchange, const AccessRules& access,
                                          std::string_view path, size_t most_body_bytes);

// A JSON-RPC error as the body of an answer of this status.
HttpReply ErrorReply(int status, const WireError& error,
                     const std::optional<RequestId>& id = std::nullopt);
HttpReply WrongMethod(std::string allowed);
HttpReply Busy(std::string why);

// True if an Accept header's value admits this media type ("a/b", in small letters).
bool Accepts(std::optional<std::string_view> accept, std::string_view type);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_HTTP_REQUEST_HEAD_H_
