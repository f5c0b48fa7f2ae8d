// What the official conformance suite wants a server to offer, on the product's own core.
//
// One function a kind of fixture, each in a file of its own; registry.cc puts them together. The
// names, texts and schemas are the suite's. Handlers are called from several threads at once.
#ifndef MPNANNY_TESTS_CONFORMANCE_FIXTURES_H_
#define MPNANNY_TESTS_CONFORMANCE_FIXTURES_H_

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "server/registry.h"

namespace mpnanny::conformance {

std::vector<ServedTool> ContentTools();  // every kind of content, and errors
std::vector<ServedTool> SchemaTools();   // input schemas that must reach the client unaltered
std::vector<ServedTool> RunningTools();  // what is sent while a call runs
std::vector<ServedTool> NoticeTools();   // what makes the server tell its listeners
std::vector<ServedTool> ClientTools();   // one request to the client
std::vector<ServedTool> FormTools();     // forms for the user, with defaults and choices
std::vector<ServedTool> InputTools();    // several rounds, several requests, carried state
std::vector<ServedResource> FixedResources();
std::vector<ResourceTemplate> ResourceFamilies();
std::vector<ServedPrompt> Prompts();

// All of it.
Registry FixtureRegistry();

// --- what several files use ---

inline constexpr char kWatchedUri[] = "test://watched-resource";

using ToolHandler = std::function<Outcome(const Json& arguments, const RequestContext& context)>;

// `properties`: of the input schema; all of them are required.
ServedTool MakeTool(const std::string& name, const std::string& description, Json properties,
                    ToolHandler handler);

Json TextBlock(const std::string& text);
Json ImageBlock();  // a small PNG
Json AudioBlock();  // a short WAV
Json TextResource(const std::string& uri, const std::string& mime_type, const std::string& text);
std::string PngBase64();

// A tool's answer.
Outcome Content(Json blocks);
Outcome Text(const std::string& text);

// Waits; false if the call was told to stop meanwhile.
bool Pause(const RequestContext& context, std::chrono::milliseconds length);

// Requests to the client.
Json ElicitationRequest(const std::string& message, Json properties, Json required);
Json SamplingRequest(const std::string& prompt, int max_tokens);
Json RootsRequest();

// The client's answer under `key`, if it is an object at all.
const Json* AnswerTo(const std::string& key, const RequestContext& context);
// The text at `key` of what came from outside; `otherwise` if there is none.
std::string TextAt(const Json& object, const char* key, const std::string& otherwise = "");
// The text in a sampling answer.
std::optional<std::string> SampledText(const Json& answer);
// A text that the user put into a form; nullopt if the form was not accepted or lacks it.
std::optional<std::string> FormText(const Json& answer, const std::string& field);

}  // namespace mpnanny::conformance

#endif  // MPNANNY_TESTS_CONFORMANCE_FIXTURES_H_
