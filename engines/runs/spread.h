// Steps spread evenly over a run, where reading all of them would take too long.
//
// Free function without state.
#ifndef MPNANNY_ENGINES_RUNS_SPREAD_H_
#define MPNANNY_ENGINES_RUNS_SPREAD_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "base/result.h"

namespace mpnanny::runs {

// `next(step)` gives the first recorded step at or after a step, as Result<std::optional<int64_t>>.
// About `most` of those from the first to `last`, ascending, both ends among them; empty where
// there is none.
template <typename Next>
Result<std::vector<int64_t>> SpreadSteps(Next next, int64_t last, size_t most) {
  std::vector<int64_t> steps;
  auto step = next(std::numeric_limits<int64_t>::min());
  if (!step) return step.error();
  if (!*step) return steps;
  const int64_t stride = std::max<int64_t>(1, (last - **step) / static_cast<int64_t>(most));
  while (*step && **step < last) {
    steps.push_back(**step);
    step = next(**step + stride);
    if (!step) return step.error();
  }
  steps.push_back(last);
  return steps;
}

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_SPREAD_H_
