// What a finding is worth, once it is known what it reaches.
//
// Pure functions.
#ifndef MPNANNY_ENGINES_JUDGEMENT_RATING_H_
#define MPNANNY_ENGINES_JUDGEMENT_RATING_H_

#include <vector>

#include "engines/judgement/calls.h"
#include "engines/judgement/findings.h"

namespace mpnanny::judgement {

// Gives each finding its severity, and those that follow from an error that is cured before them
// that cure. `is_settled`: as Consequences::IsSettled. Returns the numbers of those that count, the
// worst first.
std::vector<int> Rate(Findings& findings, const Calls& calls, bool is_settled);

}  // namespace mpnanny::judgement

#endif  // MPNANNY_ENGINES_JUDGEMENT_RATING_H_
