// What tools say, in the words of who types commands: answers, hints and descriptions name tools
// (diagnose_run) and, between backticks, their arguments (`log_path`); a person at a terminal has
// commands (`mpnanny diagnose`) and options (--log-path) in their place.
//
// Free functions without state.
#ifndef MPNANNY_SERVER_COMMAND_LINE_COMMAND_WORDS_H_
#define MPNANNY_SERVER_COMMAND_LINE_COMMAND_WORDS_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "tools/tool.h"

namespace mpnanny {

// `text` with each tool that it names as the command that is its twin. A name within a path, a call
// (`auto_diff(model)`) or a longer word is no tool's and stays.
std::string WithCommandNames(const std::string& text, const std::vector<Tool>& tools);
Error WithCommandNames(Error error, const std::vector<Tool>& tools);

// `text` with each argument of this tool that it names between backticks as the command's option,
// or as what stands for it in the help where bare words fill it ("PATH").
std::string WithOptionNames(std::string text, const ToolDefinition& definition);
Error WithOptionNames(Error error, const ToolDefinition& definition);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_COMMAND_LINE_COMMAND_WORDS_H_
