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

std::vector<std::shared_ptr<Call>> ConnectionCalls::TakeAll() {
  std::vector<std::shared_ptr<Call>> all;
  const std::lock_guard lock(mutex_);
  all.reserve(calls_.size());
  for (auto& [key, call] : calls_) all.push_back(std::move(call));
  calls_.clear();
  return all;
}

RunningCalls::RunningCalls(Clock::duration limit, Clock::duration grace, OnTime on_limit,
                           OnTime on_overdue)
    : limit_(limit),
      grace_(grace),
      on_limit_(std::move(on_limit)),
      on_overdue_(std::move(on_overdue)) {}

RunningCalls::~RunningCalls() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_watcher_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

RunningCalls::Handle RunningCalls::Add(std::shared_ptr<Call> call,
                                       const std::shared_ptr<Connection>& connection) {
  const std::lock_guard lock(mutex_);
  const Handle handle = calls_.insert(
      calls_.end(), Entry{Clock::now() + limit_, std::move(call), connection, &calls_});
  if (!watcher_.joinable()) {
    watcher_ = std::thread([this] { Watch(); });
  } else if (handle->deadline < next_look_) {
    wake_watcher_.notify_all();
  }
  return handle;
}

void RunningCalls::Remove(Handle handle) {
  std::list<Entry> removed;  // destroyed after the lock is gone
  const std::lock_guard lock(mutex_);
  removed.splice(removed.begin(), *handle->in, handle);
  if (None()) none_left_.notify_all();
}

void RunningCalls::StopAll() {
  const std::lock_guard lock(mutex_);
  // The newest first: one that waits must not start because an older one ends.
  for (auto entry = calls_.rbegin(); entry != calls_.rend(); ++entry) entry->call->Stop();
  for (const Entry& entry : late_) entry.call->Stop();
  for (const Entry& entry : overdue_) entry.call->Stop();
}

std::vector<std::shared_ptr<Call>> RunningCalls::All() {
  std::vector<std::shared_ptr<Call>> all;
  const std::lock_guard lock(mutex_);
  for (const auto* list : {&overdue_, &late_, &calls_}) {
    for (const Entry& entry : *list) all.push_back(entry.call);
  }
  return all;
}

bool RunningCalls::WaitUntilNone(Clock::duration at_most) {
  std::unique_lock lock(mutex_);
  return none_left_.wait_for(lock, at_most, [this] { return None(); });
}

void RunningCalls::Watch() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (calls_.empty() && late_.empty()) {
      next_look_ = Clock::time_point::max();
      wake_watcher_.wait(lock);
      continue;
    }
    const bool late_first =
        calls_.empty() || (!late_.empty() && late_.front().deadline < calls_.front().deadline);
    std::list<Entry>& due = late_first ? late_ : calls_;
    if (Clock::now() < due.front().deadline) {
      next_look_ = due.front().deadline;
      wake_watcher_.wait_until(lock, next_look_);
      continue;
    }
    // A copy: the entry may leave while the callback, which may write to a client, runs.
    const Entry entry = due.front();
    std::list<Entry>& next = late_first ? overdue_ : late_;
    due.front().deadline += grace_;
    due.front().in = &next;
    next.splice(next.end(), due, due.begin());
    lock.unlock();
    (late_first ? on_overdue_ : on_limit_)(entry);
    lock.lock();
  }
}

}  // namespace mpnanny
