// A loop whose rounds run on several threads.
//
// Returns when all rounds are done; the caller's thread works too. Rounds are handed out one by one
// in order, so a slow one does not hold up the others. `round` must not throw.
#ifndef MPNANNY_ENGINES_CHECK_SYNTAX_PARALLEL_H_
#define MPNANNY_ENGINES_CHECK_SYNTAX_PARALLEL_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace mpnanny::check {

// Calls round(0) … round(count - 1) on at most `threads` threads; 0: one for each core, at most 8.
template <typename Round>
void InParallel(size_t count, unsigned threads, const Round& round) {
  if (threads == 0) threads = std::clamp(std::thread::hardware_concurrency(), 1u, 8u);
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) round(i);
  };
  std::vector<std::jthread> others;
  for (size_t i = 1; i < std::min<size_t>(threads, count); ++i) others.emplace_back(work);
  work();
}

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_SYNTAX_PARALLEL_H_
