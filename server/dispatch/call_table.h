// The calls that run: by connection and id for cancellation and duplicates, and all together for
// deadlines and the end.
//
// Both tables are thread-safe and share ownership of the calls in them.
#ifndef MPNANNY_SERVER_DISPATCH_CALL_TABLE_H_
#define MPNANNY_SERVER_DISPATCH_CALL_TABLE_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "server/dispatch/call.h"

namespace mpnanny {

// The running calls of one connection. Ids of different connections never meet.
class ConnectionCalls {
 public:
  // False if a call with this id runs already.
  bool Add(const std::shared_ptr<Call>& call);
  void Remove(const Call& call);
  // The call with this id, taken out of the table; null if there is none.
  std::shared_ptr<Call> Take(const RequestId& id);

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Call>> calls_;
};

// All calls that the pool has or will get. A thread, started with the first call, hands those that
// are still there `limit` after they were added to `on_overdue`.
class RunningCalls {
 public:
  using Clock = Call::Clock;
  struct Entry {
    Clock::time_point deadline;
    std::shared_ptr<Call> call;
    bool overdue = false;  // handed to on_overdue, still at work
  };
  using Handle = std::list<Entry>::iterator;

  RunningCalls(Clock::duration limit, std::function<void(Call&)> on_overdue);
  ~RunningCalls();

  Handle Add(std::shared_ptr<Call> call);
  void Remove(Handle handle);
  void StopAll();
  std::vector<std::shared_ptr<Call>> All();
  bool WaitUntilNone(Clock::duration at_most);

 private:
  void Watch();

  const Clock::duration limit_;
  const std::function<void(Call&)> on_overdue_;
  std::mutex mutex_;
  std::condition_variable wake_watcher_;
  std::condition_variable none_left_;
  std::list<Entry> calls_;  // in the order of their deadlines
  std::list<Entry> overdue_;
  bool watcher_idle_ = false;  // it waits without a deadline
  bool ending_ = false;
  std::thread watcher_;
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DISPATCH_CALL_TABLE_H_
