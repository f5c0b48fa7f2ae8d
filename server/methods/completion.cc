// completion/complete: values for a prompt's or a resource template's argument.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "server/methods/methods.h"
#include "server/methods/path_completion.h"
#include "server/protocol/error_codes.h"

namespace mpnanny {
namespace {

constexpr size_t kMaxValues = 100;  // the specification's limit

// Those that start with `prefix`, up to the limit.
Outcome Fitting(std::vector<std::string> values, const std::string& prefix) {
  std::erase_if(values, [&](const std::string& value) { return !value.starts_with(prefix); });
  const size_t total = values.size();
  if (total > kMaxValues) values.resize(kMaxValues);
  return MethodResult{
      {{"completion", {{"values", values}, {"total", total}, {"hasMore", total > kMaxValues}}}}};
}

std::vector<std::string> ValuesOf(const ResourceTemplate& family, const ToolContext& context) {
  std::vector<std::string> values;
  if (!family.list) return values;
  for (ResourceTemplate::Entry& entry : family.list(context)) {
    values.push_back(std::move(entry.value));
  }
  return values;
}

std::vector<std::string> ValuesOf(const PromptArgument& argument, const std::string& prefix,
                                  const Registry& registry, const RequestContext& context) {
  if (argument.completed_by.empty()) return argument.values;
  const ToolContext tool_context = registry.tool_context(context);
  if (argument.completed_by == "path") return CompletePath(prefix, tool_context.roots);
  for (const ResourceTemplate& family : registry.resources) {
    if (family.variable == argument.completed_by && family.list) {
      return ValuesOf(family, tool_context);
    }
  }
  return {};
}

Outcome CompletePrompt(const Registry& registry, const std::string& name,
                       const std::string& argument_name, const std::string& prefix,
                       const RequestContext& context) {
  for (const ServedPrompt& prompt : registry.prompts()) {
    if (prompt.name != name) continue;
    for (const PromptArgument& argument : prompt.arguments) {
      if (argument.name != argument_name) continue;
      return Fitting(ValuesOf(argument, prefix, registry, context), prefix);
    }
    return WireError{kInvalidParams, "Prompt '" + name + "' has no argument '" +
                                         EscapeControl(argument_name, 100) + "'."};
  }
  return WireError{kInvalidParams, "Unknown prompt '" + EscapeControl(name, 100) + "'."};
}

Outcome CompleteTemplate(const Registry& registry, const std::string& uri,
                         const std::string& argument_name, const std::string& prefix,
                         const RequestContext& context) {
  for (const ResourceTemplate& family : registry.resources) {
    if (family.uri_template != uri) continue;
    if (family.variable != argument_name) {
      return WireError{kInvalidParams,
                       uri + " has no variable '" + EscapeControl(argument_name, 100) + "'."};
    }
    return Fitting(ValuesOf(family, registry.tool_context(context)), prefix);
  }
  return WireError{kInvalidParams, "Unknown resource template '" + EscapeControl(uri, 200) + "'."};
}

// params[outer][inner], if it is a string.
const std::string* StringAt(const Json& params, const char* outer, const char* inner) {
  const auto object = params.find(outer);
  if (object == params.end() || !object->is_object()) return nullptr;
  const auto value = object->find(inner);
  return value == object->end() ? nullptr : value->get_ptr<const std::string*>();
}

Outcome Complete(const Registry& registry, const Json& params, const RequestContext& context) {
  const std::string* type = StringAt(params, "ref", "type");
  const std::string* name = StringAt(params, "argument", "name");
  const std::string* value = StringAt(params, "argument", "value");
  if (!type || !name || !value) {
    return WireError{kInvalidParams,
                     "params must hold ref {type, name or uri} and argument {name, value}."};
  }
  if (*type == "ref/prompt" && registry.prompts) {
    const std::string* prompt = StringAt(params, "ref", "name");
    if (!prompt) return WireError{kInvalidParams, "params.ref.name must be the name of a prompt."};
    return CompletePrompt(registry, *prompt, *name, *value, context);
  }
  if (*type == "ref/resource") {
    const std::string* uri = StringAt(params, "ref", "uri");
    if (!uri) return WireError{kInvalidParams, "params.ref.uri must be a resource template."};
    return CompleteTemplate(registry, *uri, *name, *value, context);
  }
  return WireError{kInvalidParams, "params.ref.type must be \"ref/prompt\" or \"ref/resource\"."};
}

}  // namespace

void AddCompletionMethods(const Registry& registry, MethodTable& methods) {
  methods["completion/complete"] = {
      .runs_on = RunsOn::kPool,
      .run = [&registry](
                 const Json& params,
                 const RequestContext& context) { return Complete(registry, params, context); },
  };
}

}  // namespace mpnanny
