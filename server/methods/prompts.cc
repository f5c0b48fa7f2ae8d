// prompts/list and prompts/get.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "server/methods/methods.h"
#include "server/methods/paging.h"
#include "server/protocol/error_codes.h"

namespace mpnanny {
namespace {

constexpr int64_t kPromptsTtlMs = 300'000;
constexpr size_t kMaxArgumentBytes = 4000;

Outcome ListPrompts(const std::vector<ServedPrompt>& prompts, const Json& params) {
  Json listings = Json::array();
  for (const ServedPrompt& prompt : prompts) {
    Json arguments = Json::array();
    for (const PromptArgument& argument : prompt.arguments) {
      arguments.push_back({{"name", argument.name},
                           {"description", argument.description},
                           {"required", argument.required}});
    }
    listings.push_back({{"name", prompt.name},
                        {"title", prompt.title},
                        {"description", prompt.description},
                        {"arguments", std::move(arguments)}});
  }
  auto page = Page("prompts", std::move(listings), params);
  if (auto* error = std::get_if<WireError>(&page)) return std::move(*error);
  return MethodResult{std::get<Json>(std::move(page)), CacheHint{kPromptsTtlMs, true}};
}

// The arguments of a prompts/get request, checked against the prompt's declaration.
std::variant<std::map<std::string, std::string>, WireError> ReadArguments(
    const ServedPrompt& prompt, const Json& params) {
  std::map<std::string, std::string> values;
  std::vector<std::string> known;
  for (const PromptArgument& argument : prompt.arguments) known.push_back(argument.name);
  const std::string where = "Prompt '" + prompt.name + "': ";
  if (const auto given = params.find("arguments"); given != params.end() && !given->is_null()) {
    if (!given->is_object())
      return WireError{kInvalidParams, where + "params.arguments must be an object of strings."};
    for (const auto& [name, value] : given->items()) {
      const std::string shown = "argument '" + EscapeControl(name, 100) + "'";
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        return WireError{kInvalidParams,
                         where + "unknown " + shown + ". It takes " + Join(known, ", ") + "."};
      }
      if (!value.is_string())
        return WireError{kInvalidParams, where + shown + " must be a string."};
      const std::string& text = value.get_ref<const std::string&>();
      if (text.size() > kMaxArgumentBytes) {
        return WireError{kInvalidParams, where + shown + " is longer than " +
                                             std::to_string(kMaxArgumentBytes) + " bytes."};
      }
      if (!text.empty()) values[name] = text;  // forms send "" for what was left blank
    }
  }
  for (const PromptArgument& argument : prompt.arguments) {
    if (argument.required && !values.contains(argument.name)) {
      return WireError{kInvalidParams, where + "argument '" + argument.name +
                                           "' is missing: " + argument.description};
    }
  }
  return values;
}

Outcome Get(const std::vector<ServedPrompt>& prompts, const Json& params,
            const RequestContext& context) {
  const auto given = params.find("name");
  if (given == params.end() || !given->is_string()) {
    return WireError{kInvalidParams, "params.name must be the name of a prompt."};
  }
  const std::string& name = given->get_ref<const std::string&>();
  std::vector<std::string> names;
  for (const ServedPrompt& prompt : prompts) {
    names.push_back(prompt.name);
    if (prompt.name != name) continue;
    auto arguments = ReadArguments(prompt, params);
    if (auto* error = std::get_if<WireError>(&arguments)) return std::move(*error);
    Outcome outcome = prompt.render(std::get<0>(arguments), context);
    if (auto* result = std::get_if<MethodResult>(&outcome)) {
      result->body["description"] = prompt.description;
    }
    return outcome;
  }
  std::string message = "Unknown prompt '" + EscapeControl(name, 100) + "'.";
  if (const std::string near = DidYouMean(name, names); !near.empty()) message += " " + near;
  return WireError{kInvalidParams, message + " prompts/list names them all."};
}

}  // namespace

void AddPromptMethods(const Registry& registry, MethodTable& methods) {
  methods["prompts/list"] = {
      .run = [&registry](const Json& params,
                         const RequestContext&) { return ListPrompts(registry.prompts(), params); },
  };
  methods["prompts/get"] = {
      .run =
          [&registry](const Json& params, const RequestContext& context) {
            return Get(registry.prompts(), params, context);
          },
      .may_ask_client = true,
  };
}

}  // namespace mpnanny
