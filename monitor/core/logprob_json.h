// What trainer and rollout engine differ by in one call, as the details of its events
// (`logprob_mismatch`, and `logprob_groups` for each grouping).
//
// Free functions without state. Read by engines/mismatch/record.cc.
#ifndef MPNANNY_MONITOR_CORE_LOGPROB_JSON_H_
#define MPNANNY_MONITOR_CORE_LOGPROB_JSON_H_

#include <string>
#include <vector>

#include "numerics/logprob_mismatch.h"

namespace mpnanny {

std::string LogprobJson(const LogprobMismatch& found);

// One text a grouping that has groups: {"by":0,"groups":[[from,tokens,mean,rms,median,largest,exposure],…]}.
std::vector<std::string> LogprobGroupsJson(const LogprobMismatch& found);

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_LOGPROB_JSON_H_
