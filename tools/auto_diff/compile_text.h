// The answer about a compiled program and the eager one, as text.
//
// Free functions without state. Texts of the user's files are escaped here.
#ifndef MPNANNY_TOOLS_AUTO_DIFF_COMPILE_TEXT_H_
#define MPNANNY_TOOLS_AUTO_DIFF_COMPILE_TEXT_H_

#include <string>

#include "base/json.h"

namespace mpnanny::auto_diff {

// Whether an answer is one of policy "compile".
bool IsOfCompiler(const Json& answer);

// All but the limits.
std::string CompileText(const Json& answer);

}  // namespace mpnanny::auto_diff

#endif  // MPNANNY_TOOLS_AUTO_DIFF_COMPILE_TEXT_H_
