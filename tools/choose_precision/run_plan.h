// A plan from a recorded run: what its shadow steps measured in the format that it trains in, and
// for other formats what the range of its values allows.
//
// Plain values; a pure function. Rounding is established for the format of the run alone; of any
// other only that values leave its range.
#ifndef MPNANNY_TOOLS_CHOOSE_PRECISION_RUN_PLAN_H_
#define MPNANNY_TOOLS_CHOOSE_PRECISION_RUN_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/choose_precision/device.h"
#include "tools/choose_precision/recorded.h"

namespace mpnanny::choose_precision {

// Lines that have to be computed in FP32.
struct FixedLines {
  std::vector<std::string> lines;  // "file:40"
  std::string module, op;          // raw; as in ShadowFinding
  Word<FindingKind> kind;
  std::optional<double> error_before, error_after;
};

enum class WayStatus { kMeasured, kInRange, kOutOfRange, kNotOnDevice };
const char* WayStatusName(WayStatus status);  // "measured", "in_range", …

struct JudgedWay {
  std::string way;  // bf16-autocast …
  WayStatus status;
  std::vector<size_t> outside;  // layers whose values leave the range, the largest first
};

// For FP16. Shares: of gradients that round to zero without and with the scale.
struct RunScaling {
  double init_scale = 65536, gradient_absmax = 0;
  int64_t growth_interval = 2000;
  std::optional<double> flushed_unscaled, flushed;  // absent: no exponents were recorded
};

struct RunPlan {
  std::string verdict;     // as the tool's
  std::string way;         // of the plan
  std::string trained_in;  // way of the run; "" if it recorded no dtype
  std::vector<FixedLines> islands;
  std::vector<JudgedWay> ways;
  std::optional<RunScaling> scaler;  // where the plan is in FP16
  // Why it is not established: no_shadow_steps | other_format | not_precision | no_samples.
  std::vector<std::string> limits;
};

RunPlan PlanOfRun(const Recorded& recorded, const Device& device);

}  // namespace mpnanny::choose_precision

#endif  // MPNANNY_TOOLS_CHOOSE_PRECISION_RUN_PLAN_H_
