#include "tests/server/test_registry.h"

#include <chrono>
#include <cstdio>
#include <iostream>
#include <stdexcept>
#include <thread>

#include "server/prompts/prompt_file.h"
#include "server/serve_tool.h"

namespace mpnanny {
namespace {

using Handler = std::function<Result<ToolOutput>(const Json&, const ToolContext&)>;

const AllowedRoots& AnyRoots() {
  static const AllowedRoots roots = AllowedRoots::Unrestricted();
  return roots;
}

const DataFiles& TestData() {
  static const DataFiles data = *DataFiles::Create();
  return data;
}

Tool MakeTestTool(const std::string& name, Json properties, Handler run) {
  Tool tool;
  tool.definition.name = name;
  tool.definition.title = "Title of " + name;
  tool.definition.description = "A tool of the tests.";
  tool.definition.input_schema = {
      {"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
  tool.definition.output_schema = {{"type", "object"}};
  tool.run = std::move(run);
  return tool;
}

ToolOutput Text(const std::string& text) { return {{{"text", text}}, text}; }

Result<ToolOutput> Fail(const Json& arguments, const ToolContext&) {
  const std::string kind = arguments.value("kind", "");
  if (kind == "NotFound") return NotFound("grad.pt: no such file.", "Pass an existing path.");
  if (kind == "Unavailable") return Unavailable("The database is busy.", "Try again.");
  if (kind == "DataCorrupt") return DataCorrupt("The database is damaged.");
  if (kind == "DeadlineExceeded") return DeadlineExceeded("Too slow.", "Ask for less.");
  if (kind == "Internal") return Internal("secret detail of a bug");
  return InvalidInput("kind is wrong.", "Use a known one.");
}

Result<ToolOutput> SleepUntilCancelled(const Json&, const ToolContext& context) {
  while (true) {
    if (auto open = context.cancel.Check(); !open) return open.error();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

Result<ToolOutput> Count(const Json& arguments, const ToolContext& context) {
  const int to = arguments.value("to", 3);
  for (int i = 0; i <= to; ++i) {
    if (!context.progress) continue;
    context.progress(i, to, "at " + std::to_string(i));
    context.progress(i, to, "the same again");  // does not grow: must not be sent
    context.progress(i - 1, to, "backwards");
  }
  return Text(context.progress ? "reported" : "silent");
}

ResourceTemplate Items() {
  ResourceTemplate family;
  family.uri_template = "test://item/{item}";
  family.variable = "item";
  family.name = "item";
  family.title = "Items";
  family.description = "Items of the tests.";
  family.list = [](const ToolContext&) {
    std::vector<ResourceTemplate::Entry> entries;
    for (int i = 0; i < 450; ++i)
      entries.push_back({"item " + std::to_string(i), "Item", "One of many."});
    return entries;
  };
  family.read = [](const std::string& value, const ToolContext&) -> Result<std::string> {
    if (value == "busy") return Unavailable("The item is busy.", "Try again.");
    if (!value.starts_with("item ")) return NotFound("No item '" + value + "'.");
    return "text of " + value;
  };
  return family;
}

ResourceTemplate PrivateNotes() {
  ResourceTemplate family;
  family.uri_template = "test://private/{name}/note";
  family.variable = "name";
  family.name = "note";
  family.title = "Notes";
  family.description = "Notes of one user.";
  family.is_public = false;
  family.read = [](const std::string& value, const ToolContext&) -> Result<std::string> {
    return "note " + value;
  };
  return family;
}

constexpr char kGreet[] = R"(---
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

}  // namespace

Registry TestRegistry() {
  Registry registry;
  registry.tool_context = [](const RequestContext& request) {
    return ToolContext{.roots = AnyRoots(),
                       .data = TestData(),
                       .cancel = request.cancel,
                       .progress = request.progress};
  };
  registry.server_info = {{"name", "test"},
                          {"title", "Test"},
                          {"version", "1.2.3"},
                          {"description", "The tests' server."}};
  registry.instructions = "Use echo.";
  const Json text = {{"text", {{"type", "string"}, {"description", "Text."}}}};
  const Json number = {{"type", "integer"}, {"description", "A number."}};
  for (Tool& tool : std::vector<Tool>{
           MakeTestTool("echo", text,
                        [](const Json&arguments, const ToolContext&) -> Result<ToolOutput> {
                          return Text(arguments.value("text", ""));
                        }),
           MakeTestTool("fail", {{"kind", {{"type", "string"}, {"description", "Kind."}}}}, Fail),
           MakeTestTool("sleep_until_cancelled", Json::object(), SleepUntilCancelled),
           MakeTestTool("sleep", {{"ms", number}},
                        [](const Json&arguments, const ToolContext&) -> Result<ToolOutput> {
                          std::this_thread::sleep_for(
                              std::chrono::milliseconds(arguments.value("ms", 0)));
                          return Text("slept");
                        }),
           MakeTestTool("count", {{"to", number}}, Count),
           MakeTestTool("print", Json::object(),
                        [](const Json&, const ToolContext&) -> Result<ToolOutput> {
                          std::printf("printed by a library\n");
                          std::fflush(stdout);
                          std::cout << "and by another" << std::endl;
                          return Text("printed");
                        }),
           MakeTestTool("throw_exception", Json::object(),
                        [](const Json&, const ToolContext&) -> Result<ToolOutput> {
                          throw std::runtime_error("secret detail of an exception");
                        })}) {
    registry.tools.push_back(ServeTool(std::move(tool), registry.tool_context));
  }
  // Not through CallTool: what the dispatcher itself has to withstand.
  registry.tools.push_back(
      {MakeTestTool("bad_result", Json::object(), nullptr).definition,
       [](Json, const RequestContext&) -> Outcome { return MethodResult{Json::array({1})}; }});
  registry.tools.push_back({MakeTestTool("throw_raw", Json::object(), nullptr).definition,
                            [](Json, const RequestContext&) -> Outcome { throw 42; }});
  registry.resources = {Items(), PrivateNotes()};
  registry.prompts = []() -> const std::vector<ServedPrompt>& {
    static const std::vector<ServedPrompt> prompts = {*ParsePrompt(kGreet, "prompts/greet.md")};
    return prompts;
  };
  return registry;
}

}  // namespace mpnanny
