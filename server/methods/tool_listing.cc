#include "server/methods/tool_listing.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"

namespace mpnanny {
namespace {

// Longer enumerations are left to the error that a wrong word gets, which names them all.
constexpr size_t kMostWords = 8;

// Fields of an answer that are listed: the first, which are the ones to look at first.
constexpr size_t kMostFields = 6;

// What a model needs to write a value: limits and patterns stand in the error.
Json BriefProperty(const Json& property) {
  Json brief = Json::object();
  for (const char* keyword : {"type", "$ref", "anyOf", "oneOf", "required"}) {
    if (property.contains(keyword)) brief[keyword] = property[keyword];
  }
  if (const auto words = property.find("enum");
      words != property.end() && words->size() <= kMostWords) {
    brief["enum"] = *words;
  }
  // The first word of an enumeration is its default, as false, 0 and "" are of the others.
  if (const auto initial = property.find("default"); initial != property.end()) {
    const bool first = brief.contains("enum") && brief["enum"][0] == *initial;
    const bool zero = *initial == false || *initial == 0 || *initial == "";
    if (!first && !zero) brief["default"] = *initial;
  }
  if (property.contains("items")) brief["items"] = BriefProperty(property["items"]);
  if (const auto inner = property.find("properties"); inner != property.end()) {
    for (const auto& [name, each] : inner->items()) brief["properties"][name] = BriefProperty(each);
  }
  return brief;
}

Json BriefInput(const ToolDefinition& tool) {
  Json schema = BriefProperty(tool.input_schema);
  for (const auto& [name, words] : tool.brief_arguments) {
    schema["properties"][name]["description"] = words;
  }
  if (tool.input_schema.contains("additionalProperties")) {
    schema["additionalProperties"] = tool.input_schema["additionalProperties"];
  }
  return schema;
}

// The first fields that every answer has; more may stand beside them.
Json BriefOutput(const Json& schema) {
  Json properties = Json::object();
  for (const Json& required : schema.value("required", Json::array())) {
    if (properties.size() == kMostFields) break;
    const std::string name = required.get<std::string>();
    Json& field = properties[name] = Json::object();
    const Json& whole = schema["properties"][name];
    if (whole.contains("type")) field["type"] = whole["type"];
  }
  return {{"type", "object"}, {"properties", std::move(properties)}};
}

// "string, one of a, b", "list of string".
std::string TypeText(const Json& property) {
  std::string text;
  if (const auto type = property.find("type"); type != property.end()) {
    if (*type == "array") {
      text = "list";
      if (property.contains("items")) text += " of " + TypeText(property["items"]);
      return text;
    }
    text = type->is_string() ? type->get<std::string>() : type->dump();
  }
  if (const auto words = property.find("enum"); words != property.end()) {
    std::vector<std::string> names;
    for (const Json& word : *words) {
      names.push_back(word.is_string() ? word.get<std::string>() : word.dump());
    }
    text += (text.empty() ? "one of " : ", one of ") + Join(names, ", ");
  }
  for (const auto& [keyword, words] :
       {std::pair{"minimum", ", at least "}, std::pair{"maximum", ", at most "}}) {
    if (property.contains(keyword)) text += words + property[keyword].dump();
  }
  return text;
}

}  // namespace

Json ToolListing(const ServedTool& served) {
  const ToolDefinition& tool = served.definition;
  const bool brief = !tool.brief.empty();
  Json listing = {{"name", tool.name},
                  {"title", tool.title},
                  {"description", brief ? tool.brief : tool.description},
                  {"inputSchema", brief ? BriefInput(tool) : tool.input_schema},
                  {"outputSchema", brief ? BriefOutput(tool.output_schema) : tool.output_schema}};
  if (tool.output_schema.is_null()) listing.erase("outputSchema");
  listing["annotations"] = {{"readOnlyHint", tool.read_only},
                            {"destructiveHint", tool.destructive},
                            {"openWorldHint", tool.open_world}};
  // Says nothing of what only reads.
  if (!tool.read_only) listing["annotations"]["idempotentHint"] = tool.idempotent;
  if (!served.view.empty()) listing["_meta"] = {{"ui", {{"resourceUri", served.view}}}};
  return listing;
}

std::string ToolPage(const ToolDefinition& tool) {
  std::string page = "# " + tool.name + "\n\n" + tool.title + ". " + tool.description +
                     "\n\nOn the command line: `mpnanny " + tool.command.name +
                     "`.\n\n## Arguments\n\n";
  const Json required = tool.input_schema.value("required", Json::array());
  for (const auto& [name, property] : tool.input_schema["properties"].items()) {
    page += "- `" + name + "` (" + TypeText(property);
    if (std::find(required.begin(), required.end(), name) != required.end()) page += "; required";
    if (property.contains("default")) page += "; default " + DumpJson(property["default"]);
    page += "): " + property.value("description", "") + "\n";
  }
  return page + "\n## structuredContent, as a JSON schema\n\n```json\n" +
         DumpJsonPretty(tool.output_schema) + "\n```\n";
}

}  // namespace mpnanny
