#include "engines/python_code/fields.h"

#include <cmath>
#include <limits>

#include "base/text.h"
#include "engines/runs/shadow_text.h"

namespace mpnanny::python_code {

std::optional<double> NumberAt(const Json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end()) return std::nullopt;
  if (it->is_number()) return it->get<double>();
  if (*it == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (*it == "inf") return std::numeric_limits<double>::infinity();
  if (*it == "-inf") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

std::string TextAt(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

const Json& ListAt(const Json& object, const char* key) {
  static const Json kNone = Json::array();
  const auto it = object.find(key);
  return it != object.end() && it->is_array() ? *it : kNone;
}

std::string PercentAt(const Json& object, const char* key) {
  const auto value = NumberAt(object, key);
  if (!value) return "not known";
  return std::isfinite(*value) ? runs::PercentText(*value) : "not finite";
}

std::string WordsOf(const Json& list) {
  std::vector<std::string> words;
  for (const Json& each : list) {
    if (each.is_string()) words.push_back(EscapeControl(each.get<std::string>(), 200));
  }
  return Join(words, ", ");
}

Json Shortened(const Json& answer, size_t bytes, const std::vector<std::string>& lists) {
  Json shown = answer;
  for (size_t round = 0; round < 64 && DumpJson(shown).size() > bytes; ++round) {
    bool cut = false;
    for (size_t at = lists.size(); at-- > 0 && !cut;) {
      const auto list = shown.find(lists[at]);
      if (list == shown.end() || !list->is_array() || list->empty()) continue;
      const size_t keep = list->size() / 2;
      const auto left_out = static_cast<int64_t>(list->size() - keep);
      list->erase(list->begin() + static_cast<std::ptrdiff_t>(keep), list->end());
      const std::string count = lists[at] + "_left_out";
      shown[count] = shown.value(count, int64_t{0}) + left_out;
      cut = true;
    }
    if (!cut) break;
  }
  return shown;
}

}  // namespace mpnanny::python_code
