// The steps of a run (tier 1), database and flight recorder merged, and all ranks of a distributed
// run: the loss is their mean, a step is skipped once.
//
// Free functions; rows are streamed, so memory does not grow with the run.
#ifndef MPNANNY_ENGINES_RUNS_STEPS_H_
#define MPNANNY_ENGINES_RUNS_STEPS_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "base/result.h"
#include "engines/runs/run.h"

namespace mpnanny::runs {

// Bits of step.flags (monitor/schema/0001.sql).
enum StepFlag : uint32_t {
  kLossNan = 1,
  kLossInf = 2,
  kGradNonFinite = 4,
  kSkipped = 8,
  kScaleFell = 16,
  kScaleRose = 32,
  kSampled = 64,
  kDense = 128,
  kRecovered = 256,
};

// Absent means not measured. What was measured and not finite is NaN or Inf here, although the
// database stores NULL (an infinite loss has lost its sign there and reads as +Inf).
struct StepRow {
  int64_t step = 0;
  std::optional<double> at, duration, loss, lr, loss_scale, grad_norm;
  std::optional<int64_t> peak_memory;
  uint32_t flags = 0;
  bool only_in_ring = false;
  // From the ring only: layer_id of the first layer with a non-finite element; -1: none or not
  // known.
  int64_t first_nonfinite_layer = -1;
  int64_t nonfinite_layers = 0;
  // Of merged ranks, those whose loss was not finite (else whose gradients were not), ascending.
  std::vector<int64_t> bad_ranks = {};
};

struct StepRange {
  int64_t first = std::numeric_limits<int64_t>::min();
  int64_t last = std::numeric_limits<int64_t>::max();
};

// Parses "100..200" (both ends in), "100..", "..200" and "100".
Result<StepRange> ParseStepRange(std::string_view text);

// Calls `visit` for each step in ascending order until it returns false.
Result<void> ForEachStep(const Source& source, const StepRange& range,
                         const std::function<bool(const StepRow&)>& visit);

// One step; nullopt if it was not recorded.
Result<std::optional<StepRow>> ReadStep(const Source& source, int64_t step);

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_STEPS_H_
