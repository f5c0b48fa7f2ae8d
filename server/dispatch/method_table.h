// Which methods there are, in which era, where they run and what they do.
//
// Immutable once the dispatcher has it; handlers are called from several threads at once and must
// be safe for that.
#ifndef MPNANNY_SERVER_DISPATCH_METHOD_TABLE_H_
#define MPNANNY_SERVER_DISPATCH_METHOD_TABLE_H_

#include <functional>
#include <map>
#include <string>

#include "base/json.h"
#include "server/dispatch/outcome.h"
#include "server/dispatch/request_context.h"

namespace mpnanny {

enum class Eras { kLegacy, kModern, kBoth };
enum class RunsOn {
  kReader,  // at once, on the thread that reads: must be quick
  kPool,    // may take long; has a deadline and can be cancelled
};

struct Method {
  Eras eras = Eras::kBoth;
  RunsOn runs_on = RunsOn::kReader;
  std::function<Outcome(const Json& params, const RequestContext& context)> run;
  bool before_initialize = false;  // a legacy client may call it first
  bool may_ask_client = false;     // it may answer InputRequired
  // How a failure that is not the handler's own looks: overdue, or too many calls at once. Null:
  // error -32603.
  std::function<Outcome(const std::string& message)> unavailable = nullptr;

  Outcome Unavailable(const std::string& message) const;
  // For a call that was told to stop. (Nothing is sent if it was the client who took it back.)
  Outcome Stopping() const;
};

using MethodTable = std::map<std::string, Method, std::less<>>;

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DISPATCH_METHOD_TABLE_H_
