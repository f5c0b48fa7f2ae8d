// Getting what a handler needs from a legacy client: requests of ours, and their answers put
// together. A modern client does this itself.
//
// Free functions; thread-safe.
#ifndef MPNANNY_SERVER_DISPATCH_CLIENT_INPUT_H_
#define MPNANNY_SERVER_DISPATCH_CLIENT_INPUT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "base/json.h"
#include "server/dispatch/call.h"
#include "server/dispatch/connection.h"
#include "server/dispatch/outcome.h"

namespace mpnanny {

// Error -32021 if `requests` (InputRequired::requests) ask for something that the client did not
// declare; nullopt if they do not.
std::optional<WireError> MissingCapability(const Json& requests, const Json& client_capabilities);

// What the client answered: {key: result}, or why there is no use in going on.
using ClientAnswers = std::variant<Json, WireError>;

// Sends the requests on the call's stream and calls `on_answers` once, when all answers are there
// or one is an error. The call knows their ids (Call::TakeAsked).
void AskClient(const std::shared_ptr<Call>& call, const std::shared_ptr<Connection>& connection,
               const Json& requests, std::function<void(ClientAnswers)> on_answers);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DISPATCH_CLIENT_INPUT_H_
