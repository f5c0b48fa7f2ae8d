// A small fixed pool of threads for work that may take long.
//
// Threads start when they are first needed, since most processes never get that far. Thread-safe.
// The destructor waits for work that has begun and drops the rest.
#ifndef MPNANNY_SERVER_DISPATCH_WORKER_POOL_H_
#define MPNANNY_SERVER_DISPATCH_WORKER_POOL_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace mpnanny {

class WorkerPool {
 public:
  WorkerPool(size_t threads, size_t max_waiting);
  ~WorkerPool();

  // False, without taking `work`, if `max_waiting` pieces wait already.
  bool Submit(std::function<void()> work);

  // So many threads more (or fewer) than at first, because some are busy for long.
  void SetExtraThreads(size_t extra);

 private:
  void Serve();
  void Work();

  const size_t base_threads_;
  const size_t max_waiting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  size_t extra_ = 0;
  size_t idle_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DISPATCH_WORKER_POOL_H_
