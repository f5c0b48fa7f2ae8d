#include "tests/fuzz/registry.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/prompts/prompt_file.h"
#include "server/serve_tool.h"

namespace mpnanny::fuzz {
namespace {

constexpr char kPrompt[] = R"(---
name: greet
title: Greet
description: Greets somebody.
arguments:
  - name: name
    description: Who.
    required: true
    completed_by: item
  - name: tone
    description: How.
    values: [warm, warmer, cold]
example: {name: Ada}
---
Greet {{name}} now.
Do it in a {{tone}} way.
)";

Tool Echo() {
  const Json text = {{"type", "string"}, {"maxLength", 100}, {"description", "Text."}};
  Tool tool;
  tool.definition.name = "echo";
  tool.definition.title = "Echo";
  tool.definition.description = "Gives back what it got.";
  tool.definition.input_schema = {
      {"type", "object"},
      {"properties",
       {{"text", text},
        {"count", {{"type", "integer"}, {"minimum", 0}, {"maximum", 9}, {"default", 1}}},
        {"words", {{"type", "array"}, {"items", text}, {"maxItems", 5}}},
        {"mode", {{"type", "string"}, {"enum", {"plain", "loud"}}}},
        {"files",
         {{"type", "array"},
          {"items",
           {{"type", "object"}, {"properties", {{"path", text}}}, {"required", {"path"}}}}}}}},
      {"additionalProperties", false}};
  tool.definition.output_schema = {{"type", "object"}};
  tool.run = [](const Json& arguments, const ToolContext& context) -> Result<ToolOutput> {
    if (context.progress) context.progress(1, 2, "half");
    if (arguments.value("mode", "") == "loud") return InvalidInput("Too loud.", "Be plain.");
    return ToolOutput{arguments, DumpJson(arguments)};
  };
  return tool;
}

// Asks for something, remembers that it did, and asks once more.
ServedTool Ask() {
  ToolDefinition definition = Echo().definition;
  definition.name = "ask";
  return {std::move(definition), [](Json, const RequestContext& context) -> Outcome {
            const Json& round = context.input.state;
            if (round == 2) return MethodResult{{{"content", Json::array()}}};
            const Json question = {
                {"method", "elicitation/create"},
                {"params", {{"message", "?"}, {"requestedSchema", {{"type", "object"}}}}}};
            return InputRequired{{{"answer", question}, {"roots", {{"method", "roots/list"}}}},
                                 round.is_null() ? 1 : 2};
          }};
}

ResourceTemplate Items() {
  ResourceTemplate family;
  family.uri_template = "fuzz://item/{item}";
  family.variable = "item";
  family.name = "item";
  family.title = "Items";
  family.description = "Items.";
  family.list = [](const ToolContext&) {
    return std::vector<ResourceTemplate::Entry>{{"a", "A", "One."}, {"b c", "B", "Two."}};
  };
  family.read = [](const std::string& value, const ToolContext&) -> Result<std::string> {
    if (value == "a" || value == "b c") return "text of " + value;
    return NotFound("No item '" + value + "'.");
  };
  family.complete = [](const std::string& prefix, const ToolContext&) {
    return std::vector<std::string>(150, prefix + "x");
  };
  return family;
}

}  // namespace

Registry CheapRegistry() {
  static const AllowedRoots kRoots = AllowedRoots::Unrestricted();
  static const DataFiles kData = *DataFiles::Create();
  Registry registry;
  registry.server_info = {{"name", "fuzzed"}, {"version", "1"}};
  registry.instructions = "None.";
  registry.tool_context = [](const RequestContext& request) {
    return ToolContext{
        .roots = kRoots, .data = kData, .cancel = request.cancel, .progress = request.progress};
  };
  registry.tools.push_back(ServeTool(Echo(), registry.tool_context));
  registry.tools.push_back(Ask());
  registry.resources = {Items()};
  ServedResource fixed;
  fixed.uri = "fuzz://fixed";
  fixed.name = "fixed";
  fixed.read = [](const RequestContext&) -> Outcome {
    return MethodResult{{{"contents", Json::array({{{"uri", "fuzz://fixed"}, {"text", "x"}}})}}};
  };
  registry.fixed_resources.push_back(std::move(fixed));
  registry.prompts = []() -> const std::vector<ServedPrompt>& {
    static const std::vector<ServedPrompt> kPrompts = {*ParsePrompt(kPrompt, "prompts/greet.md")};
    return kPrompts;
  };
  registry.features = {.logging = true, .list_changes = true, .subscriptions = true};
  return registry;
}

}  // namespace mpnanny::fuzz
