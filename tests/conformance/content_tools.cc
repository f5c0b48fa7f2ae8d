// Every kind of content that a tool may answer with.
#include "tests/conformance/fixtures.h"

namespace mpnanny::conformance {

std::vector<ServedTool> ContentTools() {
  const auto answers = [](const std::string& name, const std::string& description, Json blocks) {
    return MakeTool(name, description, Json::object(),
                    [blocks](const Json&, const RequestContext&) { return Content(blocks); });
  };
  const auto embedded = [](Json resource) {
    return Json{{"type", "resource"}, {"resource", std::move(resource)}};
  };
  std::vector<ServedTool> tools;
  tools.push_back(answers("test_simple_text", "Answers with one text.",
                          Json::array({TextBlock("This is a simple text response for testing.")})));
  tools.push_back(
      answers("test_image_content", "Answers with an image.", Json::array({ImageBlock()})));
  tools.push_back(
      answers("test_audio_content", "Answers with a sound.", Json::array({AudioBlock()})));
  tools.push_back(
      answers("test_embedded_resource", "Answers with a resource inside.",
              Json::array({embedded(TextResource("test://embedded-resource", "text/plain",
                                                 "This is an embedded resource content."))})));
  tools.push_back(answers(
      "test_multiple_content_types", "Answers with a text, an image and a resource.",
      Json::array({TextBlock("Multiple content types test:"), ImageBlock(),
                   embedded(TextResource("test://mixed-content-resource", "application/json",
                                         R"({"test":"data","value":123})"))})));
  tools.push_back(MakeTool(
      "test_error_handling", "Fails.", Json::object(),
      [](const Json&, const RequestContext&) -> Outcome {
        return MethodResult{
            {{"content",
              Json::array({TextBlock("This tool intentionally returns an error for testing")})},
             {"isError", true}}};
      }));
  // Not the suite's: what the benchmarks call on every server alike.
  tools.push_back(MakeTool("echo", "Answers with the text that it is given.",
                           {{"text", {{"type", "string"}, {"description", "Any text."}}}},
                           [](const Json& arguments, const RequestContext&) -> Outcome {
                             const auto text = arguments.find("text");
                             if (text == arguments.end() || !text->is_string()) {
                               return MethodResult{
                                   {{"content", Json::array({TextBlock("text must be a string.")})},
                                    {"isError", true}}};
                             }
                             return Text(text->get<std::string>());
                           }));
  return tools;
}

}  // namespace mpnanny::conformance
