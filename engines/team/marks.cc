#include "engines/team/marks.h"

namespace mpnanny::team {

Json MarksJson(const Marks& marks) {
  Json json = Json::object();
  for (const auto& [table, mark] : marks) {
    Json key = Json::array();
    for (const auto& part : mark.key) {
      if (const auto* integer = std::get_if<int64_t>(&part)) {
        key.push_back(*integer);
      } else {
        key.push_back(std::get<std::string>(part));
      }
    }
    json[table] = {{"key", std::move(key)}, {"rows", mark.rows}};
  }
  return json;
}

Marks ParseMarks(const std::string& text) {
  Marks marks;
  const auto json = ParseJson(text);
  if (!json || !json->is_object()) return marks;
  for (const auto& [table, value] : json->items()) {
    const Json& key = ValueAt(value, {"key"});
    const Json& rows = ValueAt(value, {"rows"});
    if (!key.is_array() || !rows.is_number_integer()) continue;
    Mark mark;
    mark.rows = rows.get<int64_t>();
    for (const Json& part : key) {
      if (part.is_number_integer()) mark.key.emplace_back(part.get<int64_t>());
      if (part.is_string()) mark.key.emplace_back(part.get<std::string>());
    }
    if (mark.key.size() == key.size()) marks[table] = std::move(mark);
  }
  return marks;
}

std::optional<int64_t> FirstOf(const Mark& mark) {
  if (mark.key.empty()) return std::nullopt;
  const auto* first = std::get_if<int64_t>(&mark.key.front());
  return first ? std::optional(*first) : std::nullopt;
}

}  // namespace mpnanny::team
