// Signs (kSigns of engines/cases/vocabulary.h) that a finding of a shadow step shows: what kind of
// mistake its operator made, by what went in and what came out. A case that is about another kind
// of operator's mistake is not what was measured, whatever the layers are called.
//
// Pure functions.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_CAUSES_MEASURED_SIGNS_H_
#define MPNANNY_ENGINES_DIAGNOSIS_CAUSES_MEASURED_SIGNS_H_

#include <string>
#include <string_view>
#include <vector>

#include "engines/cases/case.h"
#include "engines/runs/shadow.h"

namespace mpnanny::diagnosis {

// Empty where the finding is none of a single operator, or nothing tells its kind.
std::vector<std::string_view> SignsOf(const runs::ShadowFinding& finding);

// Whether no operator made a mistake there: what is not finite came in, or is a constant.
bool IsNoOperatorsMistake(const runs::ShadowFinding& finding);

// Whether the case is about the mistake of an operator, and of none that the finding shows.
bool IsOfAnotherOperator(const cases::Case& entry, const runs::ShadowFinding& finding);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_CAUSES_MEASURED_SIGNS_H_
