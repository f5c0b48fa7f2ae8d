#include "server/transport/http/thread_cache.h"

#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

namespace mpnanny {

namespace {
constexpr std::chrono::seconds kIdleFor{20};
}

bool ThreadCache::Run(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  if (finishing_) return false;
  if (idle_ > waiting_.size()) {
    waiting_.push_back(std::move(work));
    given_.notify_one();
    return true;
  }
  if (alive_ >= most_) return false;
  try {
    // Detached: `alive_` says when it is done with this object.
    std::thread([this, work] { Serve(work); }).detach();
  } catch (const std::system_error&) {
    return false;
  }
  ++alive_;
  return true;
}

void ThreadCache::Serve(std::function<void()> work) {
  while (true) {
    work();
    work = nullptr;  // what it holds is let go of before the next wait
    std::unique_lock lock(mutex_);
    ++idle_;
    given_.wait_for(lock, kIdleFor, [this] { return finishing_ || !waiting_.empty(); });
    --idle_;
    if (waiting_.empty()) {
      // Under the lock: Finish() must not return, and the object go, before this is over.
      if (--alive_ == 0) none_left_.notify_all();
      return;
    }
    work = std::move(waiting_.front());
    waiting_.pop_front();
  }
}

void ThreadCache::Finish() {
  std::unique_lock lock(mutex_);
  finishing_ = true;
  given_.notify_all();
  none_left_.wait(lock, [this] { return alive_ == 0; });
}

}  // namespace mpnanny
