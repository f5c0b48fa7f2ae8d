// What of a run was tested and what was not: a run is healthy only as far as somebody looked.
//
// Free function without state.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_VERDICT_TESTED_H_
#define MPNANNY_ENGINES_DIAGNOSIS_VERDICT_TESTED_H_

#include "engines/diagnosis/diagnosis.h"
#include "engines/diagnosis/facts/facts.h"

namespace mpnanny::diagnosis {

// Fills `tested` and `not_tested`.
void ListTested(const Facts& facts, Diagnosis& d);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_VERDICT_TESTED_H_
