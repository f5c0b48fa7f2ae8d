// The scripts that make a shell complete mpnanny's commands, options and fixed values; files
// elsewhere.
//
// Free functions without state.
#ifndef MPNANNY_SERVER_COMMAND_LINE_SHELL_SCRIPTS_H_
#define MPNANNY_SERVER_COMMAND_LINE_SHELL_SCRIPTS_H_

#include <string>

#include "server/command_line/command_tree.h"

namespace mpnanny {

std::string BashScript(const CommandNode& root);
std::string ZshScript(const CommandNode& root);
std::string FishScript(const CommandNode& root);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_COMMAND_LINE_SHELL_SCRIPTS_H_
