#include "tests/conformance/fixtures.h"

#include <thread>
#include <utility>

namespace mpnanny::conformance {
namespace {

constexpr char kPng[] =
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAAAAABX3VL4AAAADElEQVR42mNg+A+EAAYAAf+"
    "tLDclAAAAAElFTkSuQmCC";
constexpr char kWav[] =
    "UklGRjQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+"
    "AAACABAAZGF0YRAAAAAAAEEtAEBBLQAAv9IAwL/S";

}  // namespace

ServedTool MakeTool(const std::string& name, const std::string& description, Json properties,
                    ToolHandler handler) {
  ToolDefinition definition;
  definition.name = name;
  definition.title = name;
  definition.description = description;
  definition.input_schema = {{"type", "object"}};
  if (properties.empty()) {
    definition.input_schema["properties"] = Json::object();
  } else {
    Json required = Json::array();
    for (const auto& [property, schema] : properties.items()) required.push_back(property);
    definition.input_schema["properties"] = std::move(properties);
    definition.input_schema["required"] = std::move(required);
  }
  return {std::move(definition),
          [handler = std::move(handler)](Json arguments, const RequestContext& context) {
            return handler(arguments, context);
          }};
}

Json TextBlock(const std::string& text) { return {{"type", "text"}, {"text", text}}; }

Json ImageBlock() { return {{"type", "image"}, {"data", kPng}, {"mimeType", "image/png"}}; }

Json AudioBlock() { return {{"type", "audio"}, {"data", kWav}, {"mimeType", "audio/wav"}}; }

Json TextResource(const std::string& uri, const std::string& mime_type, const std::string& text) {
  return {{"uri", uri}, {"mimeType", mime_type}, {"text", text}};
}

std::string PngBase64() { return kPng; }

Outcome Content(Json blocks) { return MethodResult{{{"content", std::move(blocks)}}}; }

Outcome Text(const std::string& text) { return Content(Json::array({TextBlock(text)})); }

bool Pause(const RequestContext& context, std::chrono::milliseconds length) {
  const auto end = std::chrono::steady_clock::now() + length;
  while (std::chrono::steady_clock::now() < end) {
    if (context.cancel.stop_requested()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

Json ElicitationRequest(const std::string& message, Json properties, Json required) {
  return {{"method", "elicitation/create"},
          {"params",
           {{"message", message},
            {"requestedSchema",
             {{"type", "object"},
              {"properties", std::move(properties)},
              {"required", std::move(required)}}}}}};
}

Json SamplingRequest(const std::string& prompt, int max_tokens) {
  Json messages = Json::array({{{"role", "user"}, {"content", TextBlock(prompt)}}});
  return {{"method", "sampling/createMessage"},
          {"params", {{"messages", std::move(messages)}, {"maxTokens", max_tokens}}}};
}

Json RootsRequest() { return {{"method", "roots/list"}, {"params", Json::object()}}; }

const Json* AnswerTo(const std::string& key, const RequestContext& context) {
  const auto answer = context.input.responses.find(key);
  if (answer == context.input.responses.end() || !answer->is_object()) return nullptr;
  return &*answer;
}

std::string TextAt(const Json& object, const char* key, const std::string& otherwise) {
  if (!object.is_object()) return otherwise;
  const auto value = object.find(key);
  return value != object.end() && value->is_string() ? value->get<std::string>() : otherwise;
}

std::optional<std::string> SampledText(const Json& answer) {
  const auto content = answer.find("content");
  if (content == answer.end()) return std::nullopt;
  // One block, or, since 2025-11-25, several.
  const Json blocks = content->is_array() ? *content : Json::array({*content});
  for (const Json& block : blocks) {
    if (!block.is_object()) continue;
    const auto text = block.find("text");
    if (text != block.end() && text->is_string()) return text->get<std::string>();
  }
  return std::nullopt;
}

std::optional<std::string> FormText(const Json& answer, const std::string& field) {
  const auto content = answer.find("content");
  if (TextAt(answer, "action") != "accept" || content == answer.end() || !content->is_object()) {
    return std::nullopt;
  }
  const auto value = content->find(field);
  if (value == content->end() || !value->is_string()) return std::nullopt;
  return value->get<std::string>();
}

}  // namespace mpnanny::conformance
