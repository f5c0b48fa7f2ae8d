// What a finding is worth, once it is known what it reaches.
//
// Pure functions.
#ifndef MPNANNY_ENGINES_JUDGEMENT_RATING_H_
#define MPNANNY_ENGINES_JUDGEMENT_RATING_H_

#include <vector>

#include "engines/judgement/calls.h"
#include "engines/judgement/findings.h"

namespace mpnanny::judgement {

// How far the training has come, as Consequences says it.
struct Course {
  bool is_settled = false;
  bool is_small_loss = false;
};

// Gives each finding its severity, and those that follow from an error that is cured before them
// that cure. Returns the numbers of those that count, the worst first.
std::vector<int> Rate(Findings& findings, const Calls& calls, const Course& course);

}  // namespace mpnanny::judgement

#endif  // MPNANNY_ENGINES_JUDGEMENT_RATING_H_
