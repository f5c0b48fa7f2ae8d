// What was found out about a run that nobody writes any more: a conversation asks several questions
// about one run, and each would read its million steps.
//
// Only how long an answer takes depends on it, never the answer: what is remembered goes by the
// stamps of all files that it was read from, so a file that grew, was rewritten, cut or replaced is
// read anew. A run that is being written is read anew each time. Safe from any thread.
#ifndef MPNANNY_ENGINES_RUNS_REMEMBERED_H_
#define MPNANNY_ENGINES_RUNS_REMEMBERED_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engines/runs/run.h"

namespace mpnanny::runs {

// The same for two sources that hold the same run, whole: databases of all ranks, in the order in
// which they are merged, and flight recorders. "" where that cannot be told: nothing may be
// remembered.
std::string StampOfRun(const Source& source);

// Values by key, the `most` that were used last.
template <typename Value>
class Remembered {
 public:
  explicit Remembered(size_t most) : most_(most) {}

  // Null if it is not known.
  std::shared_ptr<const Value> Find(const std::string& key) {
    if (key.empty()) return nullptr;
    const std::scoped_lock lock(mutex_);
    const auto found = std::find_if(entries_.begin(), entries_.end(),
                                    [&](const Entry& entry) { return entry.first == key; });
    if (found == entries_.end()) return nullptr;
    std::rotate(entries_.begin(), found, found + 1);
    return entries_.front().second;
  }

  // Nothing is kept under "".
  std::shared_ptr<const Value> Keep(const std::string& key, Value value) {
    auto kept = std::make_shared<const Value>(std::move(value));
    if (key.empty()) return kept;
    const std::scoped_lock lock(mutex_);
    std::erase_if(entries_, [&](const Entry& entry) { return entry.first == key; });
    entries_.emplace(entries_.begin(), key, kept);
    if (entries_.size() > most_) entries_.pop_back();
    return kept;
  }

 private:
  using Entry = std::pair<std::string, std::shared_ptr<const Value>>;

  const size_t most_;
  std::mutex mutex_;
  std::vector<Entry> entries_;  // the last used first
};

// Runs of which figures of some kilobytes are remembered.
inline constexpr size_t kRunsRemembered = 16;

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_REMEMBERED_H_
