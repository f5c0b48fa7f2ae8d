#include "server/dispatch/worker_pool.h"

#include <utility>

namespace mpnanny {

WorkerPool::WorkerPool(size_t threads, size_t max_waiting)
    : base_threads_(threads), max_waiting_(max_waiting) {}

WorkerPool::~WorkerPool() {
  std::deque<std::function<void()>> dropped;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    dropped.swap(waiting_);
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool WorkerPool::Submit(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  if (waiting_.size() >= max_waiting_) return false;
  waiting_.push_back(std::move(work));
  Serve();
  return true;
}

void WorkerPool::SetExtraThreads(size_t extra) {
  const std::lock_guard lock(mutex_);
  extra_ = extra;
  if (!waiting_.empty()) Serve();
}

// Sees to it that a thread takes what waits. Under the lock. Threads that are more than needed
// stay: an idle one costs nothing.
void WorkerPool::Serve() {
  if (idle_ < waiting_.size() && threads_.size() < base_threads_ + extra_) {
    threads_.emplace_back([this] { Work(); });
  } else {
    changed_.notify_one();
  }
}

void WorkerPool::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    --idle_;
    if (waiting_.empty()) return;
    std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // what it holds is let go of before the lock is taken
    lock.lock();
  }
}

}  // namespace mpnanny
