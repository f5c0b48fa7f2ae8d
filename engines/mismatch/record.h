// Calls of log_mismatch out of a run's record (the events `logprob_mismatch`, `logprob_groups`,
// `logprob_head`).
//
// Free function without state.
#ifndef MPNANNY_ENGINES_MISMATCH_RECORD_H_
#define MPNANNY_ENGINES_MISMATCH_RECORD_H_

#include "base/result.h"
#include "engines/mismatch/call.h"
#include "engines/runs/run.h"

namespace mpnanny::mismatch {

inline constexpr size_t kMostCalls = 100'000;

inline constexpr size_t kMostRanks = 256;

// None for a run in which log_mismatch was never called. Of merged ranks those of the rank that is
// furthest apart, and the size of each.
Result<Calls> ReadCalls(const runs::Source& source);

}  // namespace mpnanny::mismatch

#endif  // MPNANNY_ENGINES_MISMATCH_RECORD_H_
