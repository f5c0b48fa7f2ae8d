// The calls that run: by connection and id for cancellation and duplicates, and all together for
// deadlines and the end.
//
// Both tables are thread-safe and share ownership of the calls in them; connections are not kept
// alive by them.
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
  // All of them, taken out.
  std::vector<std::shared_ptr<Call>> TakeAll();
  bool empty() const {
    const std::lock_guard lock(mutex_);
    return calls_.empty();
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Call>> calls_;
};

struct Connection;

// Calls of which something is awaited. A thread, started with the first call, hands those that are
// still there `limit` after they were added to `on_limit`, and `grace` later to `on_overdue`.
class RunningCalls {
 public:
  using Clock = Call::Clock;
  struct Entry {
    Clock::time_point deadline;
    std::shared_ptr<Call> call;
    std::weak_ptr<Connection> connection;
    std::list<Entry>* in = nullptr;  // the list that it stands in
  };
  using Handle = std::list<Entry>::iterator;
  using OnTime = std::function<void(const Entry&)>;

  RunningCalls(Clock::duration limit, Clock::duration grace, OnTime on_limit, OnTime on_overdue);
  ~RunningCalls();

  Handle Add(std::shared_ptr<Call> call, const std::shared_ptr<Connection>& connection);
  void Remove(Handle handle);
  void StopAll();
  std::vector<std::shared_ptr<Call>> All();
  bool WaitUntilNone(Clock::duration at_most);

 private:
  void Watch();
  bool None() const { return calls_.empty() && late_.empty() && overdue_.empty(); }

  const Clock::duration limit_;
  const Clock::duration grace_;
  const OnTime on_limit_;
  const OnTime on_overdue_;
  std::mutex mutex_;
  std::condition_variable wake_watcher_;
  std::condition_variable none_left_;
  std::list<Entry> calls_;    // in the order of their deadlines
  std::list<Entry> late_;     // had their limit, have their grace; in the order of its end
  std::list<Entry> overdue_;  // handed to both, still there
  Clock::time_point next_look_ = Clock::time_point::max();  // when the watcher wakes by itself
  bool ending_ = false;
  std::thread watcher_;
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DISPATCH_CALL_TABLE_H_
