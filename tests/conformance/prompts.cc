// Prompts: plain, with arguments, with a resource or an image inside, and one that needs input.
#include <utility>

#include "tests/conformance/fixtures.h"

namespace mpnanny::conformance {
namespace {

using Arguments = std::map<std::string, std::string>;

Json UserMessage(Json content) { return {{"role", "user"}, {"content", std::move(content)}}; }

Outcome Messages(Json messages) { return MethodResult{{{"messages", std::move(messages)}}}; }

Outcome WithArguments(const Arguments& arguments, const RequestContext&) {
  return Messages(
      Json::array({UserMessage(TextBlock("Prompt with arguments: arg1='" + arguments.at("arg1") +
                                         "', arg2='" + arguments.at("arg2") + "'"))}));
}

Outcome WithResource(const Arguments& arguments, const RequestContext&) {
  return Messages(Json::array(
      {UserMessage({{"type", "resource"},
                    {"resource", TextResource(arguments.at("resourceUri"), "text/plain",
                                              "Embedded resource content for testing.")}}),
       UserMessage(TextBlock("Please process the embedded resource above."))}));
}

Outcome WithInput(const Arguments&, const RequestContext& context) {
  if (const Json* answer = AnswerTo("user_context", context)) {
    return Messages(Json::array({UserMessage(TextBlock(
        "Prompt with context: " + FormText(*answer, "context").value_or("none given")))}));
  }
  return InputRequired{{{"user_context", ElicitationRequest("What context should the prompt use?",
                                                            {{"context", {{"type", "string"}}}},
                                                            Json::array({"context"}))}}};
}

}  // namespace

std::vector<ServedPrompt> Prompts() {
  return {
      {.name = "test_simple_prompt",
       .title = "Plain",
       .description = "A prompt without arguments.",
       .arguments = {},
       .render =
           [](const Arguments&, const RequestContext&) {
             return Messages(
                 Json::array({UserMessage(TextBlock("This is a simple prompt for testing."))}));
           }},
      {.name = "test_prompt_with_arguments",
       .title = "With arguments",
       .description = "A prompt with two arguments.",
       .arguments = {{.name = "arg1",
                      .description = "The first.",
                      .required = true,
                      .values = {"hello", "help", "world"}},
                     {.name = "arg2", .description = "The second.", .required = true}},
       .render = WithArguments},
      {.name = "test_prompt_with_embedded_resource",
       .title = "With a resource",
       .description = "A prompt that holds a resource.",
       .arguments = {{.name = "resourceUri",
                      .description = "The URI that the resource gets.",
                      .required = true}},
       .render = WithResource},
      {.name = "test_prompt_with_image",
       .title = "With an image",
       .description = "A prompt that holds an image.",
       .arguments = {},
       .render =
           [](const Arguments&, const RequestContext&) {
             return Messages(Json::array(
                 {UserMessage(ImageBlock()), UserMessage(TextBlock("What does the image show?"))}));
           }},
      {.name = "test_input_required_result_prompt",
       .title = "With input",
       .description = "A prompt that needs something of the user first.",
       .arguments = {},
       .render = WithInput}};
}

}  // namespace mpnanny::conformance
