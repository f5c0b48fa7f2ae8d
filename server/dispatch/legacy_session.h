// The only thing that a connection remembers between messages: what a legacy client settled by
// `initialize` and `logging/setLevel`.
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
  // A second `initialize` replaces the first: a client that starts over has forgotten the earlier
  // one. Until the client sets a level, it gets what a person would want to see.
  void Agree(Revision revision, Json client_capabilities) {
    const std::lock_guard lock(mutex_);
    agreed_ = Envelope{revision, std::move(client_capabilities), nullptr, LogLevel::kInfo};
  }

  void SetLogLevel(LogLevel level) {
    const std::lock_guard lock(mutex_);
    if (agreed_) agreed_->log_level = level;
  }

  // What every request of this client starts from; empty before `initialize`.
  std::optional<Envelope> agreed() const {
    const std::lock_guard lock(mutex_);
    return agreed_;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<Envelope> agreed_;
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DISPATCH_LEGACY_SESSION_H_
