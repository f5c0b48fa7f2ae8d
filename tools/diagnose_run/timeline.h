// What happened in a run, in order of time.
//
// Free function without state.
#ifndef MPNANNY_TOOLS_DIAGNOSE_RUN_TIMELINE_H_
#define MPNANNY_TOOLS_DIAGNOSE_RUN_TIMELINE_H_

#include <vector>

#include "tools/diagnose_run/diagnosis.h"
#include "tools/diagnose_run/facts.h"

namespace mpnanny::diagnose_run {

// `first_bad`: the first bad moment, if there is one.
std::vector<Moment> TimelineOf(const Facts& facts, const std::optional<Onset>& first_bad);

}  // namespace mpnanny::diagnose_run

#endif  // MPNANNY_TOOLS_DIAGNOSE_RUN_TIMELINE_H_
