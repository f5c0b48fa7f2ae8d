// How a run is recorded: what the front decides once, before the first step.
//
// A plain value. The Recorder owns it; its parts refer to it.
#ifndef MPNANNY_MONITOR_CORE_RECORDER_OPTIONS_H_
#define MPNANNY_MONITOR_CORE_RECORDER_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "monitor/core/alert_types.h"
#include "monitor/core/rows.h"

namespace mpnanny {

struct RecorderOptions {
  std::string path;  // of the database
  RunRow run;        // run.precision: none to judge each tensor by its own dtype
  int64_t dense_steps = 50;
  uint32_t kinds = kAllKinds;           // watched: bits by TensorKind
  int64_t warmup_steps = kWarmupSteps;  // before conditions relative to the run's own history
  int64_t alert_window = 0;             // AlertBook's quiet steps; 0: two intervals, 50 at least
  int64_t max_bytes = int64_t{2048} << 20;  // of the database; past it old samples are thinned
  std::optional<bool> network;  // whether the path is on a network file system; empty: ask
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_RECORDER_OPTIONS_H_
