// One operator that loses precision, in a sentence.
//
// Free functions without state.
#ifndef MPNANNY_TOOLS_AUTO_DIFF_FINDING_TEXT_H_
#define MPNANNY_TOOLS_AUTO_DIFF_FINDING_TEXT_H_

#include <string>

#include "base/json.h"

namespace mpnanny::auto_diff {

// `cure`: of the answer, for the first finding; null for the others.
std::string FindingSentence(const Json& finding, const Json& cure);

// "losses.py:42 (aten.exp)": place and operator, short.
std::string PlaceOf(const Json& finding);

}  // namespace mpnanny::auto_diff

#endif  // MPNANNY_TOOLS_AUTO_DIFF_FINDING_TEXT_H_
