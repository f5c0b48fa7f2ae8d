// The order in which a project's candidates are shown: what is worst and likeliest first, and not
// the same thing again and again.
//
// Free function without state.
#ifndef MPNANNY_ENGINES_CHECK_CANDIDATES_RANKING_H_
#define MPNANNY_ENGINES_CHECK_CANDIDATES_RANKING_H_

#include <vector>

#include "engines/check/engine.h"

namespace mpnanny::check {

// Without those on lines that a finding names, and of equal code in copies of a file the first
// only.
std::vector<Candidate> RankCandidates(std::vector<Candidate> candidates,
                                      const std::vector<Finding>& findings);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_CANDIDATES_RANKING_H_
