#include "server/dispatch/call_table.h"

#include <utility>

namespace mpnanny {

bool ConnectionCalls::Add(const std::shared_ptr<Call>& call) {
  const std::lock_guard lock(mutex_);
  return calls_.emplace(call->id().Key(), call).second;
}

void ConnectionCalls::Remove(const Call& call) {
  std::shared_ptr<Call> removed;  // destroyed after the lock is gone
  const std::lock_guard lock(mutex_);
  const auto it = calls_.find(call.id().Key());
  // A call that was taken back has left the table, and its id may belong to another one by now.
  if (it == calls_.end() || it->second.get() != &call) return;
  removed = std::move(it->second);
  calls_.erase(it);
}

std::shared_ptr<Call> ConnectionCalls::Take(const RequestId& id) {
  const std::lock_guard lock(mutex_);
  const auto it = calls_.find(id.Key());
  if (it == calls_.end()) return nullptr;
  std::shared_ptr<Call> call = std::move(it->second);
  calls_.erase(it);
  return call;
}

RunningCalls::RunningCalls(Clock::duration limit, std::function<void(Call&)> on_overdue)
    : limit_(limit), on_overdue_(std::move(on_overdue)) {}

RunningCalls::~RunningCalls() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_watcher_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

RunningCalls::Handle RunningCalls::Add(std::shared_ptr<Call> call) {
  const std::lock_guard lock(mutex_);
  const Handle handle = calls_.insert(calls_.end(), Entry{Clock::now() + limit_, std::move(call)});
  if (!watcher_.joinable()) {
    watcher_ = std::thread([this] { Watch(); });
  } else if (watcher_idle_) {
    // One that waits for a deadline needs no waking: no later call is due earlier.
    wake_watcher_.notify_all();
  }
  return handle;
}

void RunningCalls::Remove(Handle handle) {
  std::list<Entry> removed;  // destroyed after the lock is gone
  const std::lock_guard lock(mutex_);
  removed.splice(removed.begin(), handle->overdue ? overdue_ : calls_, handle);
  if (calls_.empty() && overdue_.empty()) none_left_.notify_all();
}

void RunningCalls::StopAll() {
  const std::lock_guard lock(mutex_);
  // The newest first: one that waits must not start because an older one ends.
  for (auto entry = calls_.rbegin(); entry != calls_.rend(); ++entry) entry->call->Stop();
  for (const Entry& entry : overdue_) entry.call->Stop();
}

std::vector<std::shared_ptr<Call>> RunningCalls::All() {
  std::vector<std::shared_ptr<Call>> all;
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : overdue_) all.push_back(entry.call);
  for (const Entry& entry : calls_) all.push_back(entry.call);
  return all;
}

bool RunningCalls::WaitUntilNone(Clock::duration at_most) {
  std::unique_lock lock(mutex_);
  return none_left_.wait_for(lock, at_most, [this] { return calls_.empty() && overdue_.empty(); });
}

void RunningCalls::Watch() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (calls_.empty()) {
      watcher_idle_ = true;
      wake_watcher_.wait(lock);
      watcher_idle_ = false;
    } else if (const Clock::time_point next = calls_.front().deadline; Clock::now() < next) {
      wake_watcher_.wait_until(lock, next);
    } else {
      const std::shared_ptr<Call> call = calls_.front().call;
      calls_.front().overdue = true;
      overdue_.splice(overdue_.end(), calls_, calls_.begin());
      lock.unlock();
      on_overdue_(*call);  // writes to the client, which may take its time
      lock.lock();
    }
  }
}

}  // namespace mpnanny
