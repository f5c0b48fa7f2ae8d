// JSON-RPC 2.0 as MCP uses it: what kind of message this is, and how answers are written.
//
// Plain values and free functions; safe from any thread. Knows nothing of MCP's methods or
// revisions.
#ifndef MPNANNY_SERVER_PROTOCOL_JSONRPC_H_
#define MPNANNY_SERVER_PROTOCOL_JSONRPC_H_

#include <optional>
#include <string>
#include <variant>

#include "base/json.h"

namespace mpnanny {

// What a client makes up and the server repeats (ids, progress tokens) may be so long: every answer
// and every progress message holds a copy.
inline constexpr size_t kMaxTokenBytes = 1024;

// A request's id: a string of at most kMaxTokenBytes or an integer, never null. 0 and "" are ids
// like any other, and 1 is not "1".
class RequestId {
 public:
  // nullopt if `json` cannot be an id.
  static std::optional<RequestId> FromJson(const Json& json);

  const Json& json() const { return json_; }
  std::string Key() const { return DumpJson(json_); }  // unique among the ids of one connection

 private:
  explicit RequestId(Json json) : json_(std::move(json)) {}
  Json json_;
};

struct WireError {
  int code = 0;
  std::string message;
  Json data = nullptr;  // null: left out
};

struct RequestMessage {
  RequestId id;
  std::string method;
  Json params = Json::object();
};

struct NotificationMessage {
  std::string method;
  Json params = Json::object();
};

// An answer to a request of ours: a result, or an error.
struct ResponseMessage {
  std::optional<RequestId> id;  // none where the client could not read ours
  Json result = nullptr;
  std::optional<WireError> error = std::nullopt;
};

struct InvalidMessage {
  std::optional<RequestId>
      id;  // where it could be read; the error is answered with a null id otherwise
  WireError error;
};

using Message = std::variant<RequestMessage, NotificationMessage, ResponseMessage, InvalidMessage>;

// Whether ClassifyMessage() would find a request, whatever its params are.
bool IsJsonRpcRequest(const Json& json);

// Tells what one JSON value (no batch) is. Params that are left out or null become {}.
Message ClassifyMessage(Json json);

Json ResultResponse(const RequestId& id, Json result);
Json ErrorResponse(const std::optional<RequestId>& id, const WireError& error);
Json Notification(std::string method, Json params);
Json MakeRequest(const std::string& id, const std::string& method, Json params);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_PROTOCOL_JSONRPC_H_
