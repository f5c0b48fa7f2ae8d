// Telling a running call that nobody waits for it any more, or that its time is up.
//
// A CancelSource belongs to whoever started the call; copies of its CancelToken go to whoever does
// the work, which asks at convenient places. Thread-safe.
#ifndef MPNANNY_BASE_CANCEL_H_
#define MPNANNY_BASE_CANCEL_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>

#include "base/result.h"

namespace mpnanny {

class CancelToken {
 public:
  CancelToken() = default;  // never cancelled, no deadline

  bool cancelled() const { return flag_ && flag_->load(std::memory_order_relaxed); }
  bool expired() const { return deadline_ && std::chrono::steady_clock::now() >= *deadline_; }
  bool stop_requested() const { return cancelled() || expired(); }

  // Cancelled or DeadlineExceeded, if one of them holds.
  Result<void> Check() const {
    if (cancelled()) return Cancelled();
    if (expired()) return DeadlineExceeded("The call's time is up.", "Ask for less at once.");
    return {};
  }

 private:
  friend class CancelSource;
  std::shared_ptr<std::atomic<bool>>
      flag_;  // shared: the call may outlive the request that started it
  std::optional<std::chrono::steady_clock::time_point> deadline_;
};

class CancelSource {
 public:
  CancelSource() { token_.flag_ = std::make_shared<std::atomic<bool>>(false); }
  explicit CancelSource(std::chrono::steady_clock::duration limit) : CancelSource() {
    token_.deadline_ = std::chrono::steady_clock::now() + limit;
  }
  void Cancel() const { token_.flag_->store(true, std::memory_order_relaxed); }
  CancelToken token() const { return token_; }

 private:
  CancelToken token_;
};

}  // namespace mpnanny

#endif  // MPNANNY_BASE_CANCEL_H_
