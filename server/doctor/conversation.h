// What `doctor` says to a server and how it judges the answers, whatever carries them.
//
// Free functions; safe from any thread.
#ifndef MPNANNY_SERVER_DOCTOR_CONVERSATION_H_
#define MPNANNY_SERVER_DOCTOR_CONVERSATION_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "server/doctor/check.h"

namespace mpnanny {

// A way to a server. `ask` sends a request, which has an id, and returns the answer with that id;
// nullopt if none came, and then it has told why. `tell` sends a notification.
struct Wire {
  std::function<std::optional<Json>(const Json& request)> ask;
  std::function<void(const Json& notification)> tell;
};

// Runs through what a client does first, in both eras: initialize, tools/list, server/discover.
// Stops at the first answer that does not come. True if all came and were right.
bool Converse(const Wire& wire, Checks& checks);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DOCTOR_CONVERSATION_H_
