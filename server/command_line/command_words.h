// What tools say, in the words of who types commands: answers, hints and descriptions name tools
// (`diagnose_run`), and a person at a terminal has their twins (`mpnanny diagnose`).
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

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_COMMAND_LINE_COMMAND_WORDS_H_
