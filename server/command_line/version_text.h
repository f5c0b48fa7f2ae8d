// What --version prints: enough to tell one build from another.
//
// Free function without state.
#ifndef MPNANNY_SERVER_COMMAND_LINE_VERSION_TEXT_H_
#define MPNANNY_SERVER_COMMAND_LINE_VERSION_TEXT_H_

#include <string>

namespace mpnanny {

std::string VersionText();

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_COMMAND_LINE_VERSION_TEXT_H_
