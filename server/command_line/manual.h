// The manual page, section 1, in troff's man macros.
//
// Free function without state.
#ifndef MPNANNY_SERVER_COMMAND_LINE_MANUAL_H_
#define MPNANNY_SERVER_COMMAND_LINE_MANUAL_H_

#include <string>

#include "server/command_line/command_tree.h"

namespace mpnanny {

std::string ManualPage(const CommandNode& root);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_COMMAND_LINE_MANUAL_H_
