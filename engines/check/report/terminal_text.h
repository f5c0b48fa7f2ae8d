// A static_check answer for a person at a terminal: each finding with its source line and a mark
// under the place.
//
// Free function without state.
#ifndef MPNANNY_ENGINES_CHECK_REPORT_TERMINAL_TEXT_H_
#define MPNANNY_ENGINES_CHECK_REPORT_TERMINAL_TEXT_H_

#include <string>

#include "base/json.h"

namespace mpnanny::check {

// `structured`: the whole of what the tool answers, with the findings' source lines. `colour`: with
// the terminal's colours.
std::string ToTerminal(const Json& structured, bool colour);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_REPORT_TERMINAL_TEXT_H_
