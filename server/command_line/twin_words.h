// What the properties of a tool's input schema are called on the command line: options, bare words,
// and what stands for a value in the help.
//
// Free functions without state; safe from any thread.
#ifndef MPNANNY_SERVER_COMMAND_LINE_TWIN_WORDS_H_
#define MPNANNY_SERVER_COMMAND_LINE_TWIN_WORDS_H_

#include <string>
#include <vector>

#include "base/json.h"
#include "tools/tool.h"

namespace mpnanny {

// Of the input schema; empty where it has none.
const Json& Properties(const ToolDefinition& definition);

bool IsType(const Json& schema, const char* type);

// Lists of objects cannot be typed as options; `call` takes them. A cursor has no use: commands
// print everything.
bool IsOption(const std::string& name, const Json& schema);

// "--min-severity".
std::string OptionName(const CommandTwin& twin, const std::string& property);

bool Holds(const std::vector<std::string>& names, const std::string& name);

// The properties that the twin names for bare words, one after the other.
std::vector<std::string> NamedBareProperties(const CommandTwin& twin);

// The properties that bare words fill: those that the twin names, else the only one without which
// the tool does nothing, which then has its option as well.
std::vector<std::string> BareProperties(const ToolDefinition& definition);

// The words of a schema's enum, or of its items'; empty where anything may be.
std::vector<std::string> EnumWords(const Json& schema);

// "error|warning|info", "N", "PATH": what stands for the value in the help.
std::string ValueName(const std::string& property, const Json& schema);

// What stands for the bare words in the help: "PATH".
std::string BareName(const std::string& property, const Json& schema);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_COMMAND_LINE_TWIN_WORDS_H_
