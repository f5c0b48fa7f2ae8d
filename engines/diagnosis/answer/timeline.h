// What happened in a run, in order of time.
//
// Free function without state.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_ANSWER_TIMELINE_H_
#define MPNANNY_ENGINES_DIAGNOSIS_ANSWER_TIMELINE_H_

#include <vector>

#include "engines/diagnosis/diagnosis.h"
#include "engines/diagnosis/facts/facts.h"

namespace mpnanny::diagnosis {

// `first_bad`: the first bad moment, if there is one.
std::vector<Moment> TimelineOf(const Facts& facts, const std::optional<Onset>& first_bad);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_ANSWER_TIMELINE_H_
