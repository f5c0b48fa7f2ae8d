// Calls that were answered "still running" and went on: what became of them.
//
// A job's id is a handle that the client passes back; it is the only thing that outlives a call,
// and it is forgotten a while after its end. Thread-safe.
#ifndef MPNANNY_SERVER_DISPATCH_JOBS_H_
#define MPNANNY_SERVER_DISPATCH_JOBS_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/cancel.h"
#include "server/dispatch/outcome.h"

namespace mpnanny {

// Makes the answer of a call that goes on; `job` is its handle. Called from another thread than the
// one that does the work.
using RunningAnswer = std::function<Outcome(const std::string& job)>;

class Jobs {
 public:
  using Clock = std::chrono::steady_clock;

  struct Limits {
    size_t running = 4;   // a fifth call ends at its deadline as if it could not go on
    size_t waiting = 16;  // calls that wait for a job; a further one is answered at once
    size_t kept = 64;     // jobs in all: finished ones go, the oldest first
    Clock::duration keep = std::chrono::minutes(30);  // after the end
  };

  // `on_busy`: how many threads jobs and those who wait for them keep busy, whenever that changes.
  explicit Jobs(std::function<void(size_t busy)> on_busy) : Jobs(std::move(on_busy), Limits()) {}
  Jobs(std::function<void(size_t busy)> on_busy, Limits limits)
      : limits_(limits), on_busy_(std::move(on_busy)) {}

  // The work of `tool` goes on; its id, or nullopt if too many do.
  std::optional<std::string> Adopt(const std::string& tool, RunningAnswer running,
                                   CancelSource cancel);

  void Finish(const std::string& id, Outcome outcome);

  // Waits for the end of the job of this tool, but not past `at_most` or what `cancel` says: its
  // outcome, or its running answer. nullopt: there is no such job.
  std::optional<Outcome> Wait(const std::string& id, const std::string& tool,
                              const CancelToken& cancel, Clock::duration at_most);

  // Tells all to stop. Nobody waits for them any more: calls that do are stopped as well.
  void StopAll();

 private:
  struct Job {
    std::string tool;
    RunningAnswer running;
    CancelSource cancel;
    std::optional<Outcome> outcome;
    Clock::time_point ended;
  };

  size_t AtWork() const;
  void TellBusy() const { on_busy_(AtWork() + waiting_); }
  void DropOld();

  const Limits limits_;
  const std::function<void(size_t busy)> on_busy_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::map<std::string, Job> jobs_;  // guarded by mutex_
  size_t waiting_ = 0;               // guarded by mutex_
  bool stopping_ = false;            // guarded by mutex_
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DISPATCH_JOBS_H_
