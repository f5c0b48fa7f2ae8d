// The only thing that a connection remembers between messages: what `initialize` of a legacy client
// agreed on.
//
// Modern requests never read it. Thread-safe.
#ifndef MPNANNY_SERVER_DISPATCH_LEGACY_SESSION_H_
#define MPNANNY_SERVER_DISPATCH_LEGACY_SESSION_H_

#include <mutex>
#include <optional>
#include <utility>

#include "base/json.h"
#include "server/protocol/versions.h"

namespace mpnanny {

class LegacySession {
 public:
  struct Agreement {
    Revision revision;
    Json client_capabilities;
  };

  // A second `initialize` replaces the first: a client that starts over has forgotten the earlier
  // one.
  void Agree(Agreement agreement) {
    const std::lock_guard lock(mutex_);
    agreement_ = std::move(agreement);
  }

  // Empty before `initialize`.
  std::optional<Agreement> agreement() const {
    const std::lock_guard lock(mutex_);
    return agreement_;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<Agreement> agreement_;
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DISPATCH_LEGACY_SESSION_H_
