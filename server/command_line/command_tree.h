// What the parser knows of all commands, as plain values: shell completion and the manual page are
// made from it, so that they say what the parser does.
//
// Plain values and a free function.
#ifndef MPNANNY_SERVER_COMMAND_LINE_COMMAND_TREE_H_
#define MPNANNY_SERVER_COMMAND_LINE_COMMAND_TREE_H_

#include <string>
#include <vector>

#include "server/command_line/commands.h"

namespace mpnanny {

struct CommandOption {
  std::vector<std::string> names;  // "-h", "--help"; of a bare word its name in the help
  bool bare = false;               // a bare word
  enum class Value { kNone, kOptional, kNeeded } value = Value::kNone;
  std::string value_name;           // "DIR", "text|json"; empty for a flag
  std::vector<std::string> values;  // all that it takes; empty: anything
  bool folder = false;              // the value is a folder
  bool repeated = false;
  bool required = false;
  std::string help;
};

struct CommandNode {
  std::string words;  // "knowledge search"; "" for mpnanny itself
  std::string title;  // one line
  std::string about;  // the rest of its description
  std::vector<CommandOption> options;
  std::vector<CommandNode> children;
};

CommandNode TreeOf(const CommandSet& set);

// The node and all below it, each after its parent.
std::vector<const CommandNode*> AllNodes(const CommandNode& node);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_COMMAND_LINE_COMMAND_TREE_H_
