// Calling a tool with arguments that came from outside: the same path for MCP and for the command
// line.
//
// Free function without state; safe from any thread.
#ifndef MPNANNY_TOOLS_CALL_H_
#define MPNANNY_TOOLS_CALL_H_

#include "base/json.h"
#include "base/result.h"
#include "tools/tool.h"

namespace mpnanny {

// Checks `arguments` against the tool's input schema and runs it. What models send is taken where
// its meaning is plain
// ("42" for an integer, "true" for a boolean, one string for a list of strings); defaults of the
// schema are filled in. An unknown argument is an InvalidInput error that names the nearest known
// one. An exception of a handler becomes Internal.
Result<ToolOutput> CallTool(const Tool& tool, Json arguments, const ToolContext& context);

}  // namespace mpnanny

#endif  // MPNANNY_TOOLS_CALL_H_
