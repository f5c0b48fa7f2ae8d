#include "tests/server/interactive_registry.h"

#include <chrono>
#include <thread>

#include "server/serve_tool.h"
#include "tests/server/test_registry.h"

namespace mpnanny {
namespace {

Json Elicitation(const std::string& message) {
  return {{"method", "elicitation/create"},
          {"params",
           {{"message", message},
            {"requestedSchema",
             {{"type", "object"}, {"properties", {{"value", {{"type", "string"}}}}}}}}}};
}

Outcome TextResult(const std::string& text) {
  return MethodResult{{{"content", Json::array({{{"type", "text"}, {"text", text}}})}}};
}

// What the client typed into the form of this key; "" if it has not.
std::string Typed(const ClientInput& input, const std::string& key) {
  const Json answer = input.responses.value(key, Json::object());
  if (answer.value("action", "") != "accept") return "";
  return answer["content"].value("value", "");
}

Outcome AskName(Json, const RequestContext& context) {
  const std::string name = Typed(context.input, "name");
  if (name.empty()) return InputRequired{{{"name", Elicitation("Your name?")}}};
  return TextResult("Hello " + name);
}

Outcome AskTwice(Json, const RequestContext& context) {
  const Json& state = context.input.state;
  if (state.is_null()) return InputRequired{{{"first", Elicitation("First?")}}, {{"round", 1}}};
  if (state["round"] == 1) {
    return InputRequired{{{"second", Elicitation("Second?")}},
                         {{"round", 2}, {"first", Typed(context.input, "first")}}};
  }
  return TextResult(state["first"].get<std::string>() + " and " + Typed(context.input, "second"));
}

Outcome AskEverything(Json, const RequestContext& context) {
  const Json& responses = context.input.responses;
  if (responses.size() < 3) {
    return InputRequired{{{"form", Elicitation("Value?")},
                          {"model",
                           {{"method", "sampling/createMessage"},
                            {"params", {{"messages", Json::array()}, {"maxTokens", 10}}}}},
                          {"roots", {{"method", "roots/list"}}}}};
  }
  return TextResult(Typed(context.input, "form") + ", " +
                    responses["model"]["content"]["text"].get<std::string>() + ", " +
                    std::to_string(responses["roots"]["roots"].size()) + " roots");
}

Outcome Log(Json, const RequestContext& context) {
  context.call->Log(LogLevel::kDebug, "tests", "a detail");
  context.call->Log(LogLevel::kInfo, "tests", {{"step", 3}});
  context.call->Log(LogLevel::kError, "", "a failure");
  return TextResult("logged");
}

Outcome Change(Json arguments, const RequestContext& context) {
  const std::string what = arguments.value("what", "");
  if (what == "tools") context.notices.ToolsChanged();
  if (what == "prompts") context.notices.PromptsChanged();
  if (what == "resources") context.notices.ResourcesChanged();
  if (what.starts_with("test://")) context.notices.ResourceUpdated(what);
  return TextResult("changed");
}

ServedTool Raw(const std::string& name, std::function<Outcome(Json, const RequestContext&)> call) {
  ToolDefinition definition;
  definition.name = name;
  definition.description = "A tool of the tests.";
  definition.input_schema = {{"type", "object"}};
  return {std::move(definition), std::move(call)};
}

// Sleeps in steps of a millisecond and tells how far it is; ends early when it is told to.
Tool Work() {
  Tool tool;
  tool.definition.name = "work";
  tool.definition.description = "Takes its time.";
  tool.definition.may_go_on = true;
  const Json number = {{"type", "integer"}, {"description", "A number."}};
  tool.definition.input_schema = {
      {"type", "object"}, {"properties", {{"ms", number}}}, {"additionalProperties", false}};
  tool.definition.output_schema = {{"type", "object"}, {"properties", {{"done", number}}}};
  tool.run = [](const Json& arguments, const ToolContext& context) -> Result<ToolOutput> {
    const int steps = arguments.value("ms", 0);
    for (int i = 0; i < steps; ++i) {
      if (auto open = context.cancel.Check(); !open) return open.error();
      if (context.so_far) context.so_far({{{"done", i}}, "At " + std::to_string(i)});
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return ToolOutput{{{"done", steps}}, "Done"};
  };
  return tool;
}

ServedResource Fixed(const std::string& uri, std::function<Outcome(const RequestContext&)> read) {
  return {.uri = uri,
          .name = uri.substr(7),
          .title = "Fixed",
          .description = "One of its own.",
          .mime_type = "text/plain",
          .read = std::move(read)};
}

Outcome Contents(const std::string& uri, const std::string& text) {
  return MethodResult{{{"contents", Json::array({{{"uri", uri}, {"text", text}}})}}};
}

}  // namespace

Registry InteractiveRegistry() {
  Registry registry = TestRegistry();
  registry.features = {.logging = true, .list_changes = true, .subscriptions = true};
  registry.tools.push_back(Raw("ask_name", AskName));
  registry.tools.push_back(Raw("ask_twice", AskTwice));
  registry.tools.push_back(Raw("ask_everything", AskEverything));
  registry.tools.push_back(Raw("ask_for_ever", [](Json, const RequestContext&) -> Outcome {
    return InputRequired{{{"more", Elicitation("More?")}}};
  }));
  registry.tools.push_back(Raw("log", Log));
  registry.tools.push_back(Raw("change", Change));
  registry.tools.push_back(ServeTool(Work(), registry.tool_context));
  registry.fixed_resources = {
      Fixed("test://fixed",
            [](const RequestContext&) { return Contents("test://fixed", "fixed"); }),
      Fixed("test://asking", [](const RequestContext& context) -> Outcome {
        const std::string key = Typed(context.input, "key");
        if (key.empty()) return InputRequired{{{"key", Elicitation("Key?")}}};
        return Contents("test://asking", "opened with " + key);
      })};
  registry.prompts = []() -> const std::vector<ServedPrompt>& {
    static const std::vector<ServedPrompt> prompts = {
        {.name = "introduce",
         .title = "Introduce",
         .description = "Asks first.",
         .arguments = {},
         .render = [](const auto&, const RequestContext& context) -> Outcome {
           const std::string who = Typed(context.input, "who");
           if (who.empty()) return InputRequired{{{"who", Elicitation("Who?")}}};
           Json message = {{"role", "user"},
                           {"content", {{"type", "text"}, {"text", "This is " + who}}}};
           return MethodResult{{{"messages", Json::array({std::move(message)})}}};
         }}};
    return prompts;
  };
  return registry;
}

}  // namespace mpnanny
