// Tools whose input schemas use what a server could lose on the way to the client.
#include "tests/conformance/fixtures.h"

namespace mpnanny::conformance {
namespace {

// References, composition and conditions of JSON Schema 2020-12.
Json RichSchema() {
  const Json text = {{"type", "string"}};
  const auto required = [](const char* name) { return Json{{"required", Json::array({name})}}; };
  return {
      {"$schema", "https://json-schema.org/draft/2020-12/schema"},
      {"type", "object"},
      {"$defs",
       {{"address",
         {{"$anchor", "addressDef"},
          {"type", "object"},
          {"properties", {{"street", text}, {"city", text}}}}}}},
      {"properties",
       {{"name", text},
        {"address", {{"$ref", "#/$defs/address"}}},
        {"contactMethod", {{"type", "string"}, {"enum", {"phone", "email"}}}},
        {"phone", text},
        {"email", text}}},
      {"allOf", Json::array({{{"anyOf", Json::array({required("phone"), required("email")})}}})},
      {"if",
       {{"properties", {{"contactMethod", {{"const", "phone"}}}}},
        {"required", Json::array({"contactMethod"})}}},
      {"then", required("phone")},
      {"else", required("email")},
      {"additionalProperties", false}};
}

Outcome ShowArguments(const Json& arguments, const RequestContext&) {
  return Text("Called with " + DumpJson(arguments));
}

}  // namespace

std::vector<ServedTool> SchemaTools() {
  ServedTool rich = MakeTool("json_schema_2020_12_tool",
                             "Its input schema uses references, composition and conditions.",
                             Json::object(), ShowArguments);
  rich.definition.input_schema = RichSchema();

  // Arguments that HTTP clients repeat in the header Mcp-Param-<name>.
  ServedTool mirrored = MakeTool(
      "test_mirrored_arguments", "Its arguments are repeated in HTTP headers.",
      {{"region", {{"type", "string"}, {"description", "Any."}, {"x-mcp-header", "Region"}}},
       {"priority", {{"type", "integer"}, {"description", "Any."}, {"x-mcp-header", "Priority"}}}},
      ShowArguments);
  mirrored.definition.input_schema["required"] = Json::array({"region"});
  return {std::move(rich), std::move(mirrored)};
}

}  // namespace mpnanny::conformance
