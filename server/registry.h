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
  // Resource that a client with MCP Apps shows beside the answers; empty for none.
  std::string view = "";
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
  // The result's body holds "messages", the PromptMessage list. `arguments` holds declared ones
  // only, the required ones among them.
  std::function<Outcome(const std::map<std::string, std::string>& arguments,
                        const RequestContext& context)>
      render;
};

// A resource with a URI of its own, beside the families of tools/tool.h. Listed before them.
struct ServedResource {
  std::string uri;
  std::string name;
  std::string title;
  std::string description;
  std::string mime_type;
  bool is_public = false;
  // The result's body holds "contents".
  std::function<Outcome(const RequestContext& context)> read;
};

// What a server promises beside its tools, resources and prompts.
struct ServedFeatures {
  bool logging = false;        // handlers send log messages
  bool list_changes = false;   // lists of tools, prompts or resources change while the server runs
  bool subscriptions = false;  // somebody tells NoticeHub::ResourceUpdated()
};

struct Registry {
  Json server_info;          // Implementation: name, title, version, description
  std::string instructions;  // at most 2 KB: clients cut there
  std::vector<ServedTool> tools;
  std::vector<ResourceTemplate> resources;
  std::vector<ServedResource> fixed_resources = {};
  // A function, because reading prompt files costs more than a first answer may: the first call
  // does it. Null: none.
  std::function<const std::vector<ServedPrompt>&()> prompts;
  // The context in which resource families run.
  std::function<ToolContext(const RequestContext& context)> tool_context;
  ServedFeatures features = {};
  // The context in which resources are watched for subscribers; null: they are not.
  std::function<ToolContext(CancelToken cancel)> watch_context = nullptr;

  bool has_resources() const { return !resources.empty() || !fixed_resources.empty(); }
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_REGISTRY_H_
