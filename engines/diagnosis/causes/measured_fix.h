// What to change where shadow steps measured a fault, from its kind and the lines that cured it.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_CAUSES_MEASURED_FIX_H_
#define MPNANNY_ENGINES_DIAGNOSIS_CAUSES_MEASURED_FIX_H_

#include "engines/diagnosis/facts/shadow_evidence.h"
#include "engines/runs/sentence.h"

namespace mpnanny::diagnosis {

runs::Sentence MeasuredFix(const ShadowEvidence& measured, const Mechanism& mechanism);

// Of a result that came near the end of its format before something was not finite.
runs::Sentence NearLimitFix(const runs::ShadowFinding& finding);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_CAUSES_MEASURED_FIX_H_
