// The cheapest next measurement: what would decide between the causes that are left.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_ANSWER_NEXT_MEASUREMENT_H_
#define MPNANNY_ENGINES_DIAGNOSIS_ANSWER_NEXT_MEASUREMENT_H_

#include <string>

#include "engines/diagnosis/diagnosis.h"

namespace mpnanny::diagnosis {

// One or two sentences; for a run without monitor the two lines that record the next one. Cheapest
// first: reading code, then recording more, then training again in another precision.
runs::Sentence NextMeasurement(const Facts& facts, const Diagnosis& diagnosis);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_ANSWER_NEXT_MEASUREMENT_H_
