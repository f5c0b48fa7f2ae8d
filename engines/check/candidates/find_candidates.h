// Finds the candidates of one file: every row of the table of hazards, at every place where its
// operator stands.
//
// Free function without state.
#ifndef MPNANNY_ENGINES_CHECK_CANDIDATES_FIND_CANDIDATES_H_
#define MPNANNY_ENGINES_CHECK_CANDIDATES_FIND_CANDIDATES_H_

#include <functional>
#include <string_view>
#include <vector>

#include "engines/check/candidates/candidate.h"
#include "engines/check/report/suppressions.h"
#include "engines/check/unit.h"

namespace mpnanny::check {

// At most one a line, the one with the highest score; in no order. Nothing of a file that does not
// import torch; of a project in which nothing can be 16-bit only what goes wrong in FP32 as well;
// nothing that a comment silences.
// `wanted`: whether candidates of that rule's page count.
std::vector<Candidate> FindCandidates(const Unit& unit,
                                      const std::function<bool(std::string_view rule)>& wanted,
                                      Suppressions& suppressions);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_CANDIDATES_FIND_CANDIDATES_H_
