// What a server offers, as a value: the product registers its tools here, a test or a conformance
// program registers its own on the same core.
//
// Built once, then only read; everything in it is called from several threads at once.
#ifndef MPNANNY_SERVER_REGISTRY_H_
#define MPNANNY_SERVER_REGISTRY_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "server/dispatch/outcome.h"
#include "server/dispatch/request_context.h"
#include "tools/tool.h"

namespace mpnanny {

struct ServedTool {
  ToolDefinition definition;
  // `arguments` is an object, not validated yet. The outcome's body is a CallToolResult.
  std::function<Outcome(Json arguments, const RequestContext& context)> call;
};

struct PromptArgument {
  std::string name;
  std::string description;
  bool required = false;
  // All values there are, or the name of what completes it: a resource template's variable, or
  // "path". Both may be empty.
  std::vector<std::string> values = {};
  std::string completed_by = "";
};

struct ServedPrompt {
  std::string name;
  std::string title;
  std::string description;
  std::vector<PromptArgument> arguments;
  // The PromptMessage list. `arguments` holds declared ones only, the required ones among them.
  std::function<Result<Json>(const std::map<std::string, std::string>& arguments)> render;
};

struct Registry {
  Json server_info;          // Implementation: name, title, version, description
  std::string instructions;  // at most 2 KB: clients cut there
  std::vector<ServedTool> tools;
  std::vector<ResourceTemplate> resources;
  // A function, because reading prompt files costs more than a first answer may: the first call
  // does it. Null: none.
  std::function<const std::vector<ServedPrompt>&()> prompts;
  // The context in which resource families run.
  std::function<ToolContext(const RequestContext& context)> tool_context;
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_REGISTRY_H_
