// What a machine cannot keep code from (base/confinement.h), in words for people: why it was not
// run, and what has to be said beside an answer.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_PYTHON_CODE_LACKS_H_
#define MPNANNY_ENGINES_PYTHON_CODE_LACKS_H_

#include <string>
#include <vector>

#include "base/confinement.h"
#include "base/json.h"
#include "base/result.h"

namespace mpnanny::python_code {

// Of {"missing": ["writing", …]}, the way an end of mpnanny-sandbox and mpnanny-worker tells them.
// Words that nobody knows are left out.
std::vector<Lack> LacksOf(const Json& end);

// "It can change, make and remove your files (this kernel has no Landlock: …)." "" for none.
std::string LacksText(const std::vector<Lack>& lacks);

// That `what` ("The code", "The model") was not run because of them, and how to allow it.
Error RefusedBecause(const std::string& what, const std::vector<Lack>& lacks);

}  // namespace mpnanny::python_code

#endif  // MPNANNY_ENGINES_PYTHON_CODE_LACKS_H_
