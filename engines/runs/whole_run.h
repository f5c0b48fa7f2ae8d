// A pass over all steps of a run that ends in time: a client waits for a minute at most, and a run
// on a slow disk may have steps for longer.
//
// Free function without state.
#ifndef MPNANNY_ENGINES_RUNS_WHOLE_RUN_H_
#define MPNANNY_ENGINES_RUNS_WHOLE_RUN_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/cancel.h"
#include "base/result.h"
#include "engines/runs/run.h"
#include "engines/runs/steps.h"

namespace mpnanny::runs {

inline constexpr std::chrono::seconds kPassTime{20};

// As ForEachStep() over all steps, which ends after `limit` with what was seen by then. Gives the
// step after which it ended; absent: it saw them all.
inline Result<std::optional<int64_t>> ForEachStepInTime(
    const Source& source, CancelToken::Clock::duration limit,
    const std::function<void(const StepRow&)>& visit) {
  constexpr int64_t kRowsBetweenChecks = 4096;
  const auto until = CancelToken::Clock::now() + limit;
  std::optional<int64_t> ended_after;
  int64_t rows = 0;
  MPN_TRY(ForEachStep(source, {}, [&](const StepRow& row) {
    visit(row);
    if (++rows % kRowsBetweenChecks != 0 || CancelToken::Clock::now() < until) return true;
    ended_after = row.step;
    return false;
  }));
  return ended_after;
}

// What is to be told of a pass that ended early.
inline std::string EndedEarly(int64_t step) {
  return "Stopped at the time limit: steps after " + std::to_string(step) +
         " were not looked at. Asked again it may get further, since what was read lies in the "
         "system's memory; query_stats looks at any `steps`.";
}

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_WHOLE_RUN_H_
