#include "tools/arguments.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "engines/json_schema.h"

namespace mpnanny {
namespace {

// The whole of `text` as a number of type T; nullopt on anything else around it.
template <typename T>
std::optional<T> WholeNumber(const std::string& text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || text.empty()) return std::nullopt;
  return value;
}

// JSON types of a value as schemas call them; an integer is a number as well.
bool HasType(const Json& value, std::string_view type) {
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  if (type == "null") return value.is_null();
  return false;
}

bool FitsSomeType(const Json& schema, const Json& value) {
  for (const char* type : {"string", "integer", "number", "boolean", "array", "object", "null"}) {
    if (HasType(value, type) && SchemaAllowsType(schema, type)) return true;
  }
  return false;
}

std::optional<Json> AsInteger(const Json& value) {  // 5.0, "5" and "5.0" are 5
  constexpr double kExact =
      9007199254740992.0;  // 2^53: above it a double does not tell every integer
  std::optional<double> number;
  if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    if (const auto whole = WholeNumber<int64_t>(text)) return Json(*whole);
    number = WholeNumber<double>(text);
  } else if (value.is_number_float()) {
    number = value.get<double>();
  }
  if (!number || !(std::abs(*number) <= kExact) || *number != std::floor(*number))
    return std::nullopt;
  return Json(static_cast<int64_t>(*number));
}

std::optional<Json> AsNumber(const Json& value) {
  if (!value.is_string()) return std::nullopt;
  const auto number = WholeNumber<double>(value.get<std::string>());
  if (!number || !std::isfinite(*number)) return std::nullopt;
  return Json(*number);
}

std::optional<Json> AsBoolean(const Json& value) {
  if (!value.is_string()) return std::nullopt;
  const std::string word = LowerCase(value.get<std::string>());
  if (word == "true") return Json(true);
  if (word == "false") return Json(false);
  return std::nullopt;
}

// A list or object that was sent as its own JSON text.
std::optional<Json> FromText(const Json& value, char opening) {
  if (!value.is_string()) return std::nullopt;
  const std::string& text = value.get_ref<const std::string&>();
  const size_t start = text.find_first_not_of(" \t\r\n");
  if (start == std::string::npos || text[start] != opening) return std::nullopt;
  Result<Json> parsed = ParseJson(text);
  if (!parsed) return std::nullopt;
  return std::move(*parsed);
}

// What `value` means where the schema does not take its type; nullopt when that is not plain.
std::optional<Json> Convert(const Json& schema, const Json& value) {
  if (value.is_null()) return std::nullopt;
  if (SchemaAllowsType(schema, "integer")) {
    if (auto converted = AsInteger(value)) return converted;
  }
  if (SchemaAllowsType(schema, "number")) {
    if (auto converted = AsNumber(value)) return converted;
  }
  if (SchemaAllowsType(schema, "boolean")) {
    if (auto converted = AsBoolean(value)) return converted;
  }
  if (SchemaAllowsType(schema, "object")) {
    if (auto converted = FromText(value, '{')) return converted;
  }
  if (SchemaAllowsType(schema, "array")) {
    if (auto converted = FromText(value, '[')) return converted;
    return Json::array({value});
  }
  if (SchemaAllowsType(schema, "string") && value.is_number()) return Json(value.dump());
  return std::nullopt;
}

// The word of an enumeration that was meant by another spelling of its case.
void MatchEnumeration(const Json& choices, Json& value) {
  if (!value.is_string() || std::find(choices.begin(), choices.end(), value) != choices.end())
    return;
  const std::string word = LowerCase(value.get<std::string>());
  const Json* found = nullptr;
  for (const Json& choice : choices) {
    if (!choice.is_string() || LowerCase(choice.get<std::string>()) != word) continue;
    if (found) return;  // two words differ in case only: not plain
    found = &choice;
  }
  if (found) value = *found;
}

void Normalise(const Json& root, const Json& unresolved, Json& value) {
  const Json* const resolved = ResolveSchema(root, unresolved);
  if (!resolved || !resolved->is_object()) return;
  const Json& schema = *resolved;
  if (schema.contains("type") && !FitsSomeType(schema, value)) {
    if (auto converted = Convert(schema, value)) value = std::move(*converted);
  }
  if (const auto choices = schema.find("enum"); choices != schema.end()) {
    MatchEnumeration(*choices, value);
  }
  if (value.is_array()) {
    const auto items = schema.find("items");
    if (items == schema.end() || !items->is_object()) return;
    for (Json& item : value) Normalise(root, *items, item);
  }
  const auto properties = schema.find("properties");
  if (!value.is_object() || properties == schema.end()) return;
  for (const auto& [name, property] : properties->items()) {
    auto given = value.find(name);
    if (given != value.end() && given->is_null()) {
      const Json* const target = ResolveSchema(root, property);
      if (target && target->is_object() && target->contains("type") &&
          !SchemaAllowsType(*target, "null")) {
        value.erase(name);
        given = value.end();
      }
    }
    if (given != value.end()) {
      Normalise(root, property, *given);
    } else if (const auto initial = property.find("default"); initial != property.end()) {
      value[name] = *initial;
    }
  }
}

}  // namespace

void NormaliseArguments(const Json& schema, Json& value) { Normalise(schema, schema, value); }

}  // namespace mpnanny
