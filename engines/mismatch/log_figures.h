// What a log prints of the mismatch between trainer and rollout engine, under the names that verl,
// TRL, OpenRLHF, slime, AReaL, open-instruct and Tinker give it.
//
// Free function without state.
#ifndef MPNANNY_ENGINES_MISMATCH_LOG_FIGURES_H_
#define MPNANNY_ENGINES_MISMATCH_LOG_FIGURES_H_

#include "base/result.h"
#include "engines/mismatch/call.h"
#include "engines/runs/run.h"

namespace mpnanny::mismatch {

// A log prints one or two figures a step and no tokens: each call has an rms that follows from the
// best of them, `figure` names it. None for a log without any.
Result<Calls> ReadLogFigures(const runs::Source& source);

}  // namespace mpnanny::mismatch

#endif  // MPNANNY_ENGINES_MISMATCH_LOG_FIGURES_H_
