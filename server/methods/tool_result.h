// How a tool's Result is told to the client. The one place that maps our kinds of errors for tools.
//
// Free functions; safe from any thread.
#ifndef MPNANNY_SERVER_METHODS_TOOL_RESULT_H_
#define MPNANNY_SERVER_METHODS_TOOL_RESULT_H_

#include <string>

#include "base/cancel.h"
#include "base/json.h"
#include "base/result.h"
#include "server/dispatch/outcome.h"
#include "tools/tool.h"

namespace mpnanny {

// A CallToolResult with isError: the model reads it and can do better.
Json ErrorToolResult(const std::string& text);

// Our own bugs become error -32603 with a log id, a call that was told to stop is Stopped;
// everything else that went wrong is a result with isError.
Outcome ToolOutcome(const std::string& tool, Result<ToolOutput> result, const CancelToken& cancel);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_METHODS_TOOL_RESULT_H_
