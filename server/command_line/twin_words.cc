#include "server/command_line/twin_words.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <sstream>

#include "base/text.h"

namespace mpnanny {

const Json& Properties(const ToolDefinition& definition) {
  static const Json none = Json::object();
  const auto properties = definition.input_schema.find("properties");
  return properties == definition.input_schema.end() ? none : *properties;
}

bool IsType(const Json& schema, const char* type) { return schema.value("type", Json()) == type; }

bool IsOption(const std::string& name, const Json& schema) {
  if (name == "cursor" || name == "job" || IsType(schema, "object")) return false;
  return !IsType(schema, "array") || !IsType(schema.value("items", Json::object()), "object");
}

std::string OptionName(const CommandTwin& twin, const std::string& property) {
  const auto renamed = twin.options.find(property);
  std::string name = renamed == twin.options.end() ? property : renamed->second;
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
}

std::vector<std::string> NamedBareProperties(const CommandTwin& twin) {
  std::istringstream words(twin.positional);
  return {std::istream_iterator<std::string>(words), {}};
}

bool Holds(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> BareProperties(const ToolDefinition& definition) {
  const Json required = definition.input_schema.value("required", Json::array());
  if (!definition.command.positional.empty() || required.size() != 1)
    return NamedBareProperties(definition.command);
  return {required[0].get<std::string>()};
}

std::vector<std::string> EnumWords(const Json& schema) {
  std::vector<std::string> words;
  const Json& one = schema.contains("items") ? schema["items"] : schema;
  for (const Json& word : one.value("enum", Json::array())) {
    words.push_back(word.is_string() ? word.get<std::string>() : word.dump());
  }
  return words;
}

std::string ValueName(const std::string& property, const Json& schema) {
  if (IsType(schema, "array")) {
    const Json items = schema.value("items", Json::object());
    const std::string one =
        property.ends_with("s") ? property.substr(0, property.size() - 1) : property;
    return ValueName(one, items);  // the parser adds "..."
  }
  if (schema.contains("enum")) {
    const std::string joined = Join(EnumWords(schema), "|");
    if (joined.size() <= 40) return joined;
  }
  if (IsType(schema, "integer")) return "N";
  if (IsType(schema, "number")) return "X";
  std::string name = property;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name;
}

std::string BareName(const std::string& property, const Json& schema) {
  return schema.contains("enum") ? ValueName(property, Json::object())
                                 : ValueName(property, schema);
}

}  // namespace mpnanny
