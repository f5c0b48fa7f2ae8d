// Telling a running call that nobody waits for it any more, or that its time is up.
//
// A CancelSource belongs to whoever started the call; copies of its CancelToken go to whoever does
// the work, which asks at convenient places. Thread-safe.
#ifndef MPNANNY_BASE_CANCEL_H_
#define MPNANNY_BASE_CANCEL_H_

#include <atomic>
#include <chrono>
#include <memory>

#include "base/result.h"

namespace mpnanny {

class CancelToken {
 public:
  using Clock = std::chrono::steady_clock;

  CancelToken() = default;  // never cancelled, no deadline

  bool cancelled() const { return state_ && state_->cancelled.load(std::memory_order_relaxed); }
  bool expired() const {
    const Clock::time_point until = deadline();
    return until != Clock::time_point::max() && Clock::now() >= until;
  }
  bool stop_requested() const { return cancelled() || expired(); }

  // Clock::time_point::max() if there is none. It may be put off while the work runs.
  Clock::time_point deadline() const {
    return state_ ? state_->deadline.load(std::memory_order_relaxed) : Clock::time_point::max();
  }

  // Cancelled or DeadlineExceeded, if one of them holds.
  Result<void> Check() const {
    if (cancelled()) return Cancelled();
    if (expired()) return DeadlineExceeded("The call's time is up.", "Ask for less at once.");
    return {};
  }

 private:
  friend class CancelSource;
  struct State {
    std::atomic<bool> cancelled{false};
    std::atomic<Clock::time_point> deadline{Clock::time_point::max()};
  };
  std::shared_ptr<State> state_;  // shared: the call may outlive the request that started it
};

class CancelSource {
 public:
  using Clock = CancelToken::Clock;

  CancelSource() { token_.state_ = std::make_shared<CancelToken::State>(); }
  explicit CancelSource(Clock::duration limit) : CancelSource() { SetLimit(limit); }

  void Cancel() const { token_.state_->cancelled.store(true, std::memory_order_relaxed); }
  // The deadline is so far from now.
  void SetLimit(Clock::duration limit) const {
    token_.state_->deadline.store(Clock::now() + limit, std::memory_order_relaxed);
  }
  CancelToken token() const { return token_; }

 private:
  CancelToken token_;
};

}  // namespace mpnanny

#endif  // MPNANNY_BASE_CANCEL_H_
