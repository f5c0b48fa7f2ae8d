// Threads for work that mostly waits: as many as there is work at once, up to a limit, kept for a
// while and used again.
//
// Thread-safe. The destructor waits until all work has ended.
#ifndef MPNANNY_SERVER_TRANSPORT_HTTP_THREAD_CACHE_H_
#define MPNANNY_SERVER_TRANSPORT_HTTP_THREAD_CACHE_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>

namespace mpnanny {

class ThreadCache {
 public:
  explicit ThreadCache(size_t most) : most_(most) {}
  ~ThreadCache() { Finish(); }
  ThreadCache(const ThreadCache&) = delete;
  ThreadCache& operator=(const ThreadCache&) = delete;

  // Runs `work` on a thread of its own, now. False, without taking it, if all threads are busy and
  // there may be no more, or the system gives none.
  bool Run(std::function<void()> work);

  // Waits until all work has ended; none is taken any more.
  void Finish();

 private:
  void Serve(std::function<void()> work);

  const size_t most_;
  std::mutex mutex_;
  std::condition_variable given_;
  std::condition_variable none_left_;
  std::deque<std::function<void()>> waiting_;  // never more than there are idle threads
  size_t alive_ = 0;
  size_t idle_ = 0;
  bool finishing_ = false;
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_TRANSPORT_HTTP_THREAD_CACHE_H_
