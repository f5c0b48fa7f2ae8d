// How the training is made, as the monitor heard it (events of
// monitor/python/mpnanny/steps/call_order.py).
//
// Plain values. A run of an older monitor or from a log has none: `heard` is false then.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_FACTS_LOOP_CALLS_H_
#define MPNANNY_ENGINES_DIAGNOSIS_FACTS_LOOP_CALLS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engines/diagnosis/facts/failed_call.h"
#include "engines/runs/run.h"

namespace mpnanny::diagnosis {

struct OptimizerSeen {
  int64_t step = 0;  // at which it stepped first
  std::string kind;  // "AdamW"; "other" for a class that is not torch's
  std::optional<double> lr, eps;
  int64_t parameters = 0;
  int64_t with_state = 0;  // parameters that had state before that step
};

struct ScalerSeen {
  int64_t step = 0;
  std::optional<double> scale, growth_interval;
};

struct ClipSeen {
  int64_t step = 0;
  bool scaled = false;
  std::optional<double> max_norm, norm;  // `norm` may be infinite or NaN
  std::string norm_dtype;
  std::vector<std::string> lines;  // that call it, nearest first; of what was scaled
};

struct LoadSeen {
  int64_t step = 0;
  std::string what;     // model | optimizer | scaler
  bool within = false;  // some step had been made before
};

// A new optimizer took over parameters that another one had trained.
struct PhaseSeen {
  int64_t step = 0;   // at which it stepped first
  int64_t loads = 0;  // checkpoints that were loaded between the two
};

struct LoopCalls {
  bool heard = false;
  std::string autocast;  // dtype; "" if the model never ran under autocast in a sampled step
  std::vector<OptimizerSeen> optimizers;
  std::vector<ScalerSeen> scalers;
  std::vector<ClipSeen> clips;
  std::vector<LoadSeen> loads;
  std::vector<PhaseSeen> phases;
  bool unscales = false;
  std::optional<int64_t> direct_step;  // first step past the scaler on gradients still scaled
  std::optional<double> direct_scale;
  std::vector<std::string> direct_lines;  // that call it, nearest first
  // First step past the scaler on gradients that were unscaled: nobody looks whether they are
  // finite.
  std::optional<int64_t> unguarded_step;
  std::vector<std::string> unguarded_lines;
  std::optional<int64_t> update_missing;
  // Steps that the loop left without an optimizer step, and the first of them.
  int64_t left = 0, first_left = 0;
  std::optional<int64_t> gradients_replaced;
  int64_t backwards = 1;             // most backward passes of one step
  std::optional<FailedCall> failed;  // the exception that ended the training
};

// Whether a new phase of the training began at that step, for which nothing was loaded.
bool BeginsPhase(const LoopCalls& loop, int64_t step);

Result<LoopCalls> ReadLoopCalls(const runs::Source& source);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_FACTS_LOOP_CALLS_H_
