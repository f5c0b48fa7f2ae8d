// Calls that go through several rounds: the client answers requests and carries our state.
#include <utility>

#include "tests/conformance/fixtures.h"

namespace mpnanny::conformance {
namespace {

Json AskFor(const std::string& field, const std::string& message) {
  return ElicitationRequest(message, {{field, {{"type", "string"}}}}, Json::array({field}));
}

Json AskToConfirm() {
  return ElicitationRequest("Please confirm.", {{"ok", {{"type", "boolean"}}}},
                            Json::array({"ok"}));
}

bool Confirmed(const RequestContext& context) {
  const Json* answer = AnswerTo("confirm", context);
  if (!answer || TextAt(*answer, "action") != "accept") return false;
  const Json content = answer->value("content", Json::object());
  return content.is_object() && content.value("ok", Json()) == true;
}

// A user who says no ends the call; no answer, or an unusable one, has the client asked again.
bool Refused(const Json& answer) {
  const std::string action = TextAt(answer, "action");
  return action == "decline" || action == "cancel";
}

Outcome AskName(const Json&, const RequestContext& context) {
  if (const Json* answer = AnswerTo("user_name", context)) {
    if (Refused(*answer)) return Text("The user gave no name.");
    if (const auto name = FormText(*answer, "name")) return Text("Hello, " + *name + "!");
  }
  return InputRequired{{{"user_name", AskFor("name", "What is your name?")}}};
}

Outcome AskModel(const Json&, const RequestContext& context) {
  if (const Json* answer = AnswerTo("capital_question", context)) {
    if (const auto text = SampledText(*answer)) return Text("The model says: " + *text);
  }
  return InputRequired{
      {{"capital_question", SamplingRequest("What is the capital of France?", 100)}}};
}

// How many roots the client has, if it said so.
std::optional<size_t> CountRoots(const RequestContext& context) {
  const Json* answer = AnswerTo("client_roots", context);
  if (!answer) return std::nullopt;
  const auto roots = answer->find("roots");
  if (roots == answer->end() || !roots->is_array()) return std::nullopt;
  return roots->size();
}

Outcome AskRoots(const Json&, const RequestContext& context) {
  if (const auto count = CountRoots(context)) {
    return Text("The client has " + std::to_string(*count) + " root(s).");
  }
  return InputRequired{{{"client_roots", RootsRequest()}}};
}

// Only who brings our state back, and confirms, gets on.
ToolHandler ConfirmWithState(const std::string& purpose, const std::string& success) {
  return [=](const Json&, const RequestContext& context) -> Outcome {
    const Json state = {{"purpose", purpose}};
    if (context.input.state == state && Confirmed(context)) return Text(success);
    return InputRequired{{{"confirm", AskToConfirm()}}, state};
  };
}

Outcome AskThreeThings(const Json&, const RequestContext& context) {
  const Json state = {{"purpose", "three things"}};
  const Json* name = AnswerTo("user_name", context);
  const Json* greeting = AnswerTo("greeting", context);
  const auto roots = CountRoots(context);
  if (context.input.state == state && name && greeting && roots) {
    return Text("Name: " + FormText(*name, "name").value_or("none") + "; greeting: " +
                SampledText(*greeting).value_or("none") + "; roots: " + std::to_string(*roots));
  }
  return InputRequired{{{"user_name", AskFor("name", "What is your name?")},
                        {"greeting", SamplingRequest("Write a greeting.", 50)},
                        {"client_roots", RootsRequest()}},
                       state};
}

Outcome AskTwice(const Json&, const RequestContext& context) {
  const Json& state = context.input.state;
  const int round = state.is_object() ? state.value("round", 0) : 0;
  if (round == 2) {
    if (const Json* answer = AnswerTo("step2", context)) {
      return Text(TextAt(state, "name") + " likes " +
                  FormText(*answer, "color").value_or("no colour") + ".");
    }
  }
  std::string name = round == 2 ? TextAt(state, "name") : "";
  if (round == 1) {
    if (const Json* answer = AnswerTo("step1", context)) {
      name = FormText(*answer, "name").value_or("Somebody");
    }
  }
  if (!name.empty()) {
    return InputRequired{{{"step2", AskFor("color", "Step 2: What is your favorite color?")}},
                         {{"round", 2}, {"name", name}}};
  }
  return InputRequired{{{"step1", AskFor("name", "Step 1: What is your name?")}}, {{"round", 1}}};
}

Outcome AskWhatIsDeclared(const Json&, const RequestContext& context) {
  std::string answered;
  for (const char* key : {"elicit_input", "sample_input"}) {
    if (AnswerTo(key, context)) answered += std::string(answered.empty() ? "" : ", ") + key;
  }
  if (!answered.empty()) return Text("The client answered " + answered + ".");
  Json requests = Json::object();
  if (context.client_capabilities.contains("elicitation")) {
    requests["elicit_input"] = AskFor("value", "Any value?");
  }
  if (context.client_capabilities.contains("sampling")) {
    requests["sample_input"] = SamplingRequest("Anything?", 50);
  }
  if (requests.empty()) return Text("The client declares nothing that could be asked for.");
  return InputRequired{std::move(requests), {{"purpose", "capabilities"}}};
}

}  // namespace

std::vector<ServedTool> InputTools() {
  const auto tool = [](const std::string& name, const std::string& description,
                       ToolHandler handler) {
    return MakeTool("test_input_required_result_" + name, description, Json::object(),
                    std::move(handler));
  };
  return {tool("elicitation", "Needs the user's name.", AskName),
          tool("sampling", "Needs an answer of the client's model.", AskModel),
          tool("list_roots", "Needs the client's roots.", AskRoots),
          tool("request_state", "Needs a confirmation and its own state back.",
               ConfirmWithState("request state", "state-ok: confirmed.")),
          tool("multiple_inputs", "Needs three things of the client at once.", AskThreeThings),
          tool("multi_round", "Asks twice, one after the other.", AskTwice),
          tool("tampered_state", "Takes its own state back unaltered only.",
               ConfirmWithState("integrity", "integrity-ok: the state is unaltered.")),
          tool("capabilities", "Asks for what the client declares, and nothing else.",
               AskWhatIsDeclared)};
}

}  // namespace mpnanny::conformance
