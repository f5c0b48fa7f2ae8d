#include "server/transport/http/header_rules.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/base64.h"
#include "base/text.h"
#include "server/protocol/error_codes.h"
#include "server/protocol/versions.h"

namespace mpnanny {
namespace {

constexpr std::string_view kBase64Open = "=?base64?";
constexpr std::string_view kBase64Close = "?=";

WireError Mismatch(std::string message) { return {kHeaderMismatch, std::move(message), nullptr}; }

WireError Missing(const std::string& header) {
  return Mismatch("The header " + header + " is missing. It must repeat what the body says.");
}

WireError Differs(const std::string& header, std::string_view value, const std::string& what) {
  return Mismatch("The header " + header + " says '" + EscapeControl(value, 100) +
                  "', which is not the body's " + what + ".");
}

const Json* Find(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

// The string params.<key>, or null.
const std::string* StringParam(const Json* params, const char* key) {
  if (!params || !params->is_object()) return nullptr;
  const Json* value = Find(*params, key);
  return value && value->is_string() ? value->get_ptr<const std::string*>() : nullptr;
}

// Which of a method's parameters Mcp-Name repeats; null for none.
const char* NamedBy(std::string_view method) {
  if (method == "tools/call" || method == "prompts/get") return "name";
  if (method == "resources/read") return "uri";
  return nullptr;
}

// Whether the header says what the argument is. Numbers are compared as numbers.
bool SaysTheSame(const std::string& said, const Json& argument) {
  if (argument.is_string()) return said == *argument.get_ptr<const std::string*>();
  if (argument.is_boolean()) return said == (argument.get<bool>() ? "true" : "false");
  if (said == DumpJson(argument)) return true;
  const auto number = argument.is_number() ? ParseJson(said) : Result<Json>(Json());
  return number && number->is_number() && *number == argument;
}

void Collect(const Json& schema, std::vector<std::string>& path,
             std::vector<MirroredArgument>& found) {
  const Json* properties = schema.is_object() ? Find(schema, "properties") : nullptr;
  if (!properties || !properties->is_object()) return;
  for (const auto& [name, property] : properties->items()) {
    if (!property.is_object()) continue;
    path.push_back(name);
    if (const Json* header = Find(property, "x-mcp-header"); header && header->is_string()) {
      found.push_back({path, "Mcp-Param-" + header->get<std::string>()});
    }
    Collect(property, path, found);
    path.pop_back();
  }
}

std::optional<WireError> CheckArguments(const Json& params, const HeaderLookup& header,
                                        const std::vector<MirroredArgument>& mirrored) {
  for (const MirroredArgument& each : mirrored) {
    const Json* value = Find(params, "arguments");
    for (const std::string& step : each.path) {
      value = value && value->is_object() ? Find(*value, step.c_str()) : nullptr;
    }
    const auto said = header(each.header);
    const bool given = value && !value->is_null();
    if (!said && given) return Missing(each.header);
    if (!said) continue;
    const auto decoded = DecodeHeaderValue(*said);
    if (!given || !decoded || !SaysTheSame(*decoded, *value)) {
      return Differs(each.header, *said, "argument '" + each.path.back() + "'");
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<MirroredArgument> FindMirroredArguments(const Json& input_schema) {
  std::vector<MirroredArgument> found;
  std::vector<std::string> path;
  Collect(input_schema, path, found);
  return found;
}

bool IsLegacyRevision(std::string_view name) { return RevisionName(NegotiateLegacy(name)) == name; }

bool IsModernPost(const Json& message, std::optional<std::string_view> version_header,
                  bool in_session) {
  if (message.is_object()) {
    const Json* params = Find(message, "params");
    const Json* method = in_session ? nullptr : Find(message, "method");
    const std::string name = method && method->is_string() ? method->get<std::string>() : "";
    if (IsModernRequest(name, params && params->is_object() ? *params : Json::object()))
      return true;
  }
  return !in_session && version_header && !IsLegacyRevision(*version_header);
}

std::optional<std::string> DecodeHeaderValue(std::string_view value) {
  if (!value.starts_with(kBase64Open) || !value.ends_with(kBase64Close) ||
      value.size() < kBase64Open.size() + kBase64Close.size()) {
    const bool ascii = std::all_of(value.begin(), value.end(),
                                   [](char c) { return static_cast<unsigned char>(c) < 0x80; });
    return ascii ? std::optional(std::string(value)) : std::nullopt;
  }
  value.remove_prefix(kBase64Open.size());
  value.remove_suffix(kBase64Close.size());
  return DecodeBase64(value);
}

std::optional<WireError> CheckModernRequest(const Json& request, const HeaderLookup& header,
                                            const MirroredArguments& mirrored) {
  const std::string& method = *Find(request, "method")->get_ptr<const std::string*>();
  const auto version = header(kVersionHeader);
  if (!version) return Missing(kVersionHeader);
  const auto said_method = header(kMethodHeader);
  if (!said_method) return Missing(kMethodHeader);
  const char* const named_by = NamedBy(method);
  const auto said_name = named_by ? header(kNameHeader) : std::nullopt;
  if (named_by && !said_name) return Missing(kNameHeader);

  static const Json kNone = Json::object();
  const Json* given = Find(request, "params");
  const Json& params = given && given->is_object() ? *given : kNone;
  const auto envelope = ReadModernEnvelope(params);
  const auto* fault = std::get_if<WireError>(&envelope);
  if (fault && fault->code != kUnsupportedProtocolVersion) return *fault;

  if (params["_meta"][kMetaVersionKey] != *version) {
    return Differs(kVersionHeader, *version, "protocol version");
  }
  if (*said_method != method) return Differs(kMethodHeader, *said_method, "method");
  if (const std::string* name = named_by ? StringParam(&params, named_by) : nullptr) {
    if (DecodeHeaderValue(*said_name) != *name) {
      return Differs(kNameHeader, *said_name, std::string("params.") + named_by);
    }
    const auto tool = method == "tools/call" ? mirrored.find(*name) : mirrored.end();
    if (tool != mirrored.end()) {
      if (auto wrong = CheckArguments(params, header, tool->second)) return wrong;
    }
  }
  if (fault) return *fault;
  return std::nullopt;
}

}  // namespace mpnanny
