// The verdict of a run and the sentence that gives its reason. It goes through the record, the
// worst first, and says healthy where nothing held; what was measured can still make it degraded.
//
// Free function without state.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_VERDICT_VERDICT_H_
#define MPNANNY_ENGINES_DIAGNOSIS_VERDICT_VERDICT_H_

#include <vector>

#include "engines/diagnosis/detectors/detector.h"
#include "engines/diagnosis/diagnosis.h"
#include "engines/diagnosis/facts/facts.h"

namespace mpnanny::diagnosis {

// Sets verdict and headline.
void Judge(const Facts& facts, const std::vector<Claim>& claims, Diagnosis& d);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_VERDICT_VERDICT_H_
