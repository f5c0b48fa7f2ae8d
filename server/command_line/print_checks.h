// What the checks of `doctor` found, for people and for programs.
//
// Free functions without state.
#ifndef MPNANNY_SERVER_COMMAND_LINE_PRINT_CHECKS_H_
#define MPNANNY_SERVER_COMMAND_LINE_PRINT_CHECKS_H_

#include <iosfwd>

#include "server/doctor/check.h"

namespace mpnanny {

// One line a check, or one JSON object.
void PrintChecks(std::ostream& out, const Checks& checks, bool json);

// True if one of them failed.
bool Failed(const Checks& checks);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_COMMAND_LINE_PRINT_CHECKS_H_
