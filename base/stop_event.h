// One "please stop" for the whole process, that a signal handler can raise and poll() can wait for.
//
// Thread-safe. Request() may be called from a signal handler. At most one StopEvent is bound to
// signals at a time; it must outlive every thread that waits on it.
#ifndef MPNANNY_BASE_STOP_EVENT_H_
#define MPNANNY_BASE_STOP_EVENT_H_

#include <atomic>
#include <chrono>

namespace mpnanny {

class StopEvent {
 public:
  // Takes no descriptor below 3. Aborts if the system has none left for a pipe.
  StopEvent();
  ~StopEvent();
  StopEvent(const StopEvent&) = delete;
  StopEvent& operator=(const StopEvent&) = delete;

  // From now on SIGTERM and SIGINT raise this event, and SIGPIPE does nothing (writes report it
  // instead). The earlier handlers come back when the event is destroyed.
  void BindSignals();

  void Request();
  // Waits until the event is raised.
  void Wait() const;
  // The same for at most so long; whether it is raised.
  bool WaitFor(std::chrono::milliseconds most) const;
  bool requested() const { return requested_.load(std::memory_order_relaxed); }

  // Readable once the event is raised, and ever after.
  int fd() const { return pipe_[0]; }

 private:
  std::atomic<bool> requested_{false};
  int pipe_[2] = {-1, -1};
  bool bound_ = false;
};

}  // namespace mpnanny

#endif  // MPNANNY_BASE_STOP_EVENT_H_
