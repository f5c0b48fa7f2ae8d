#include "engines/python_code/answer_form.h"

#include <string>
#include <utility>

#include "base/text.h"
#include "engines/json_schema.h"

namespace mpnanny::python_code {
namespace {

// What is out of bounds, or ""; texts are made safe on the way.
std::string Bound(Json& value) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text.size() > kMostTextBytes) return "a text has " + std::to_string(text.size()) + " bytes";
    value = EscapeControl(text, 16 * kMostTextBytes, /*keep_newlines=*/true);
    return "";
  }
  if (value.is_array() && value.size() > kMostItems)
    return "a list has " + std::to_string(value.size()) + " items";
  if (value.is_object() && value.size() > kMostFields)
    return "an object has " + std::to_string(value.size()) + " fields";
  if (!value.is_structured()) return "";
  if (value.is_object()) {
    for (const auto& [name, unused] : value.items()) {
      if (name.size() > kMostNameBytes || EscapeControl(name, 2 * kMostNameBytes) != name)
        return "a field has no proper name";
    }
  }
  for (Json& each : value) {
    if (std::string problem = Bound(each); !problem.empty()) return problem;
  }
  return "";
}

}  // namespace

Json FigureSchema() {
  return {{"anyOf", {{{"type", {"number", "null"}}}, {{"enum", {"nan", "inf", "-inf"}}}}}};
}

Json RowSchema(const std::vector<std::string>& texts, const std::vector<std::string>& figures) {
  Json properties = Json::object();
  for (const std::string& each : texts) properties[each] = {{"type", "string"}};
  for (const std::string& each : figures) properties[each] = FigureSchema();
  return {{"type", "object"}, {"properties", std::move(properties)}};
}

Json RowsSchema(const std::vector<std::string>& texts, const std::vector<std::string>& figures) {
  return {{"type", "array"}, {"items", RowSchema(texts, figures)}};
}

Result<Json> InForm(Json answer, const Json& schema) {
  if (const std::string problem = Bound(answer); !problem.empty()) return InvalidInput(problem);
  if (const auto valid = ValidateAgainstSchema(schema, answer, "the answer"); !valid)
    return InvalidInput(EscapeControl(valid.error().message, 600));
  return answer;
}

}  // namespace mpnanny::python_code
