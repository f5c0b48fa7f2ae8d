#include "server/dispatch/jobs.h"

#include <algorithm>
#include <utility>

#include "base/random_id.h"

namespace mpnanny {
namespace {

// How soon somebody who waits for a job notices that its own call was taken back.
constexpr std::chrono::milliseconds kLook{100};

}  // namespace

std::optional<std::string> Jobs::Adopt(const std::string& tool, RunningAnswer running,
                                       CancelSource cancel) {
  const std::lock_guard lock(mutex_);
  DropOld();
  if (AtWork() >= limits_.running) return std::nullopt;
  const std::string id = RandomId();
  jobs_.emplace(id, Job{tool, std::move(running), std::move(cancel), std::nullopt, {}});
  TellBusy();
  return id;
}

void Jobs::Finish(const std::string& id, Outcome outcome) {
  const std::lock_guard lock(mutex_);
  const auto job = jobs_.find(id);
  if (job == jobs_.end()) return;
  job->second.outcome = std::move(outcome);
  job->second.ended = Clock::now();
  job->second.running = nullptr;
  ended_.notify_all();
  TellBusy();
}

std::optional<Outcome> Jobs::Wait(const std::string& id, const std::string& tool,
                                  const CancelToken& cancel, Clock::duration at_most) {
  const Clock::time_point until = Clock::now() + at_most;
  RunningAnswer running;
  {
    std::unique_lock lock(mutex_);
    DropOld();
    while (true) {
      const auto job = jobs_.find(id);
      if (job == jobs_.end() || job->second.tool != tool) return std::nullopt;
      if (job->second.outcome) return *job->second.outcome;
      running = job->second.running;
      if (stopping_) return Stopped{};
      if (cancel.stop_requested() || Clock::now() >= until || waiting_ >= limits_.waiting) break;
      ++waiting_;
      TellBusy();
      ended_.wait_until(lock, std::min(until, Clock::now() + kLook));
      --waiting_;
      TellBusy();
    }
  }
  return running(id);  // without the lock: the job may end meanwhile
}

void Jobs::StopAll() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  for (const auto& [id, job] : jobs_) job.cancel.Cancel();
  ended_.notify_all();
}

size_t Jobs::AtWork() const {
  return static_cast<size_t>(std::count_if(jobs_.begin(), jobs_.end(),
                                           [](const auto& job) { return !job.second.outcome; }));
}

void Jobs::DropOld() {
  const Clock::time_point now = Clock::now();
  std::erase_if(jobs_, [&](const auto& job) {
    return job.second.outcome && now - job.second.ended > limits_.keep;
  });
  while (jobs_.size() > limits_.kept) {
    auto oldest = jobs_.end();
    for (auto job = jobs_.begin(); job != jobs_.end(); ++job) {
      if (job->second.outcome &&
          (oldest == jobs_.end() || job->second.ended < oldest->second.ended)) {
        oldest = job;
      }
    }
    if (oldest == jobs_.end()) return;
    jobs_.erase(oldest);
  }
}

}  // namespace mpnanny
