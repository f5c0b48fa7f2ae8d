#include "base/front_matter.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>

namespace mpnanny {
namespace {

Result<Json> ToJson(const YAML::Node& node, int depth) {
  if (depth > 8) return InvalidInput("front matter is nested more than 8 levels deep");
  switch (node.Type()) {
    case YAML::NodeType::Scalar:
      return Json(node.Scalar());
    case YAML::NodeType::Sequence: {
      Json list = Json::array();
      for (const auto& item : node) {
        auto value = ToJson(item, depth + 1);
        if (!value) return value.error();
        list.push_back(*std::move(value));
      }
      return list;
    }
    case YAML::NodeType::Map: {
      Json object = Json::object();
      for (const auto& item : node) {
        const std::string key = item.first.Scalar();
        if (object.contains(key)) return InvalidInput("key '" + key + "' stands twice");
        auto value = ToJson(item.second, depth + 1);
        if (!value) return value.error();
        object[key] = *std::move(value);
      }
      return object;
    }
    case YAML::NodeType::Null:
    case YAML::NodeType::Undefined:
      break;
  }
  return Json(nullptr);
}

}  // namespace

Result<FrontMatter> ParseFrontMatter(std::string_view text, std::string_view name) {
  const std::string where(name);
  if (text.substr(0, 4) != "---\n") {
    return InvalidInput(where + ":1: no front matter.", "The first line must be '---'.");
  }
  const size_t end = text.find("\n---\n", 3);
  if (end == std::string_view::npos) {
    return InvalidInput(where + ": front matter is not closed.", "End it with a line '---'.");
  }
  const std::string_view yaml = text.substr(4, end + 1 - 4);
  FrontMatter result;
  result.body = std::string(text.substr(end + 5));
  result.body_line = 3 + static_cast<int>(std::count(yaml.begin(), yaml.end(), '\n'));
  try {
    auto fields = ToJson(YAML::Load(std::string(yaml)), 0);
    if (!fields) return InvalidInput(where + ": " + fields.error().message + ".");
    result.fields = *std::move(fields);
  } catch (const YAML::Exception& e) {
    // YAML counts lines from 0 and from the line after '---'.
    return InvalidInput(where + ":" + std::to_string(e.mark.line + 2) + ": " + e.msg + ".");
  }
  if (!result.fields.is_object())
    return InvalidInput(where + ": front matter is not a list of 'key: value'.");
  return result;
}

}  // namespace mpnanny
