// What happened to a run or to the monitor: the rows of table `event`.
//
// Free function; rows are streamed.
#ifndef MPNANNY_ENGINES_RUNS_EVENTS_H_
#define MPNANNY_ENGINES_RUNS_EVENTS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "engines/runs/run.h"

namespace mpnanny::runs {

struct EventRow {
  std::optional<int64_t> step;
  std::string type;    // raw
  std::string detail;  // JSON, at most 4,000 bytes; "" if there is none
};

// Calls `visit` in the order of writing until it returns false. A database without the table has no
// events.
Result<void> ForEachEvent(const Source& source, const std::function<bool(const EventRow&)>& visit);

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_EVENTS_H_
