// A tool of tools/ as the server calls it: arguments checked, its Result told as an answer, calls
// that outlast the client's patience turned into jobs.
//
// Free functions; safe from any thread.
#ifndef MPNANNY_SERVER_SERVE_TOOL_H_
#define MPNANNY_SERVER_SERVE_TOOL_H_

#include <functional>

#include "server/registry.h"
#include "tools/tool.h"

namespace mpnanny {

// `context`: what the tool runs with, for one request.
ServedTool ServeTool(Tool tool, std::function<ToolContext(const RequestContext& request)> context);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_SERVE_TOOL_H_
