// A tool as tools/list shows it. Every conversation of every user pays for each word there, so a
// tool with a brief is listed by that: arguments with their types and the brief's words, answers by
// their fields. mpnanny://tools/{tool} has the whole definition.
//
// Free functions; safe from any thread.
#ifndef MPNANNY_SERVER_METHODS_TOOL_LISTING_H_
#define MPNANNY_SERVER_METHODS_TOOL_LISTING_H_

#include "base/json.h"
#include "server/registry.h"
#include "tools/tool.h"

namespace mpnanny {

// An element of tools/list in the newest revision. Its schemas take all that the definition's take.
Json ToolListing(const ServedTool& tool);

// The whole definition as Markdown.
std::string ToolPage(const ToolDefinition& definition);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_METHODS_TOOL_LISTING_H_
