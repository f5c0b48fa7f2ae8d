// The verdict of a run and the sentence that gives its reason.
//
// Free function without state.
#ifndef MPNANNY_TOOLS_DIAGNOSE_RUN_VERDICT_H_
#define MPNANNY_TOOLS_DIAGNOSE_RUN_VERDICT_H_

#include <vector>

#include "tools/diagnose_run/detectors/detector.h"
#include "tools/diagnose_run/diagnosis.h"
#include "tools/diagnose_run/facts.h"

namespace mpnanny::diagnose_run {

// Sets verdict and headline.
void Judge(const Facts& facts, const std::vector<Claim>& claims, Diagnosis& d);

}  // namespace mpnanny::diagnose_run

#endif  // MPNANNY_TOOLS_DIAGNOSE_RUN_VERDICT_H_
