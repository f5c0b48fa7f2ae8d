// The command line: `mpnanny COMMAND …`. Every tool is a command, made from the tool's definition;
// others (serve, run, pack, report, view, tape, call, rules, knowledge, config, install, doctor,
// completion, man) are written by hand.
//
// Exit codes: 0 done, 1 the command's own "something was found" (check --fail-on, doctor), 2 wrong
// usage or an error, told on stderr. Results go to `out` only. One call at a time; it borrows
// everything it is given.
#ifndef MPNANNY_SERVER_COMMAND_LINE_COMMAND_LINE_H_
#define MPNANNY_SERVER_COMMAND_LINE_COMMAND_LINE_H_

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "tools/tool.h"

namespace mpnanny {

struct CommandLineContext {
  // Asked only by commands that need tools, so that the others start at once.
  std::function<std::vector<Tool>()> tools;
  std::function<std::vector<ResourceTemplate>()> resource_templates;
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  // Without any argument: true prints the help, false (a program started us, as MCP clients do)
  // serves.
  bool interactive = true;
  bool terminal = false;  // `out` is a terminal
  bool progress = false;  // `err` is a terminal: what takes long may say there how far it is
  bool colour = false;    // `out` is a terminal that shows colours, and they are wanted
};

// Runs one command and returns the exit code. `arguments` is argv without the program's name.
int RunCommandLine(const std::vector<std::string>& arguments, const CommandLineContext& context);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_COMMAND_LINE_COMMAND_LINE_H_
