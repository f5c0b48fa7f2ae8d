// Forms for the user: default values of every type, and every way to offer choices.
#include <utility>

#include "tests/conformance/fixtures.h"

namespace mpnanny::conformance {
namespace {

Json Field(const std::string& type, const std::string& description, Json more) {
  Json field = {{"type", type}, {"description", description}};
  field.update(more);
  return field;
}

Json WithDefaults() {
  return {{"name", Field("string", "User name", {{"default", "John Doe"}})},
          {"age", Field("integer", "User age", {{"default", 30}})},
          {"score", Field("number", "User score", {{"default", 95.5}})},
          {"status", Field("string", "User status",
                           {{"enum", {"active", "inactive", "pending"}}, {"default", "active"}})},
          {"verified", Field("boolean", "Verification status", {{"default", true}})}};
}

Json Titled(const std::string& value, const std::string& title) {
  return {{"const", value}, {"title", title}};
}

Json WithChoices() {
  const Json plain = {"option1", "option2", "option3"};
  const Json titled =
      Json::array({Titled("value1", "First Option"), Titled("value2", "Second Option"),
                   Titled("value3", "Third Option")});
  return {
      {"untitledSingle", Field("string", "One of these", {{"enum", plain}})},
      {"titledSingle", Field("string", "One of these, with titles", {{"oneOf", titled}})},
      {"legacyEnum", Field("string", "One of these, titles the old way",
                           {{"enum", {"opt1", "opt2", "opt3"}},
                            {"enumNames", {"Option One", "Option Two", "Option Three"}}})},
      {"untitledMulti",
       Field("array", "Some of these",
             {{"minItems", 1}, {"maxItems", 3}, {"items", {{"type", "string"}, {"enum", plain}}}})},
      {"titledMulti", Field("array", "Some of these, with titles",
                            {{"minItems", 1}, {"maxItems", 3}, {"items", {{"anyOf", titled}}}})}};
}

ServedTool FormTool(const std::string& name, const std::string& description,
                    const std::string& message, const Json& properties) {
  return MakeTool(
      name, description, Json::object(),
      [=](const Json&, const RequestContext& context) -> Outcome {
        if (const Json* answer = AnswerTo("form", context)) {
          return Text("Elicitation completed: action=" + TextAt(*answer, "action") +
                      ", content=" + DumpJson(answer->value("content", Json::object())));
        }
        return InputRequired{{{"form", ElicitationRequest(message, properties, Json::array())}}};
      });
}

}  // namespace

std::vector<ServedTool> FormTools() {
  return {FormTool("test_elicitation_sep1034_defaults", "A form with default values.",
                   "Please check these values.", WithDefaults()),
          FormTool("test_elicitation_sep1330_enums", "A form with choices of every kind.",
                   "Please choose.", WithChoices())};
}

}  // namespace mpnanny::conformance
