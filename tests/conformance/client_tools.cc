// Tools that need one thing of the client: an answer of its model or of its user, or its roots.
#include <utility>

#include "server/protocol/error_codes.h"
#include "tests/conformance/fixtures.h"

namespace mpnanny::conformance {
namespace {

Json TextProperty(const std::string& name, const std::string& description) {
  return {{name, {{"type", "string"}, {"description", description}}}};
}

Outcome Sample(const Json& arguments, const RequestContext& context) {
  if (const Json* answer = AnswerTo("sample", context)) {
    return Text("LLM response: " + SampledText(*answer).value_or("no text"));
  }
  const std::string prompt = TextAt(arguments, "prompt", "Say something.");
  return InputRequired{{{"sample", SamplingRequest(prompt, 100)}}};
}

Outcome Elicit(const Json& arguments, const RequestContext& context) {
  if (const Json* answer = AnswerTo("user", context)) {
    return Text("User response: action=" + TextAt(*answer, "action") +
                ", content=" + DumpJson(answer->value("content", Json::object())));
  }
  const Json text = {{"type", "string"}};
  return InputRequired{{{"user", ElicitationRequest(TextAt(arguments, "message", "Who are you?"),
                                                    {{"username", text}, {"email", text}},
                                                    Json::array({"username", "email"}))}}};
}

Outcome ListRoots(const Json&, const RequestContext& context) {
  if (const Json* answer = AnswerTo("client_roots", context)) {
    Json uris = Json::array();
    for (const Json& root : answer->value("roots", Json::array())) {
      if (root.is_object()) uris.push_back(TextAt(root, "uri"));
    }
    return Text("Found " + std::to_string(uris.size()) + " root(s): " + DumpJson(uris));
  }
  return InputRequired{{{"client_roots", RootsRequest()}}};
}

Outcome NeedsSampling(const Json&, const RequestContext& context) {
  if (context.client_capabilities.contains("sampling")) return Text("Success");
  return WireError{kMissingClientCapability,
                   "This tool needs a client that declares the capability 'sampling'.",
                   {{"requiredCapabilities", {{"sampling", Json::object()}}}}};
}

}  // namespace

std::vector<ServedTool> ClientTools() {
  std::vector<ServedTool> tools;
  tools.push_back(MakeTool("test_sampling", "Asks the client's model.",
                           TextProperty("prompt", "What to ask."), Sample));
  tools.push_back(MakeTool("test_elicitation", "Asks the client's user for a name and an address.",
                           TextProperty("message", "What to ask."), Elicit));
  tools.push_back(
      MakeTool("test_list_roots", "Asks for the client's roots.", Json::object(), ListRoots));
  tools.push_back(MakeTool("test_missing_capability", "Refuses clients without sampling.",
                           Json::object(), NeedsSampling));
  return tools;
}

}  // namespace mpnanny::conformance
