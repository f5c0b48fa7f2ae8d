// Pieces of JSON schemas that the tools over runs share.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_RUNS_SCHEMA_H_
#define MPNANNY_ENGINES_RUNS_SCHEMA_H_

#include <string>

#include "base/json.h"

namespace mpnanny::runs {

// A number that may be "nan", "inf", "-inf", or null for not known.
inline Json NumberSchema(const std::string& description) {
  return {{"type", {"number", "string", "null"}}, {"description", description}};
}
inline Json IntegerSchema(const std::string& description, bool nullable = false) {
  return {{"type", nullable ? Json{"integer", "null"} : Json("integer")},
          {"description", description}};
}
inline Json TextSchema(const std::string& description, bool nullable = false) {
  return {{"type", nullable ? Json{"string", "null"} : Json("string")},
          {"description", description}};
}
inline Json ListSchema(Json items, const std::string& description) {
  return {{"type", "array"}, {"items", std::move(items)}, {"description", description}};
}
// An object whose listed properties are all there; more may be.
inline Json ObjectSchema(Json properties, const std::string& description = "") {
  Json required = Json::array();
  for (const auto& [name, schema] : properties.items()) required.push_back(name);
  Json object = {
      {"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}};
  if (!description.empty()) object["description"] = description;
  return object;
}
// The same as a nullable property.
inline Json OptionalObjectSchema(Json properties, const std::string& description) {
  Json object = ObjectSchema(std::move(properties), description);
  object["type"] = {"object", "null"};
  return object;
}

inline constexpr char kRunArgument[] =
    "The run: \"<database>#<run id>\" as list_runs gives it (of a team's database "
    "postgresql://host/db#<id>), or the path of a database or folder for its newest run, or a log "
    "of another program (TensorBoard or W&B folder, CSV, JSON, text).";

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_SCHEMA_H_
