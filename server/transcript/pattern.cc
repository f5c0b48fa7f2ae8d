#include "server/transcript/pattern.h"

#include <algorithm>
#include <utility>

namespace mpnanny {
namespace {

constexpr size_t kMostDifferences = 10;  // of one message
constexpr size_t kMostShown = 300;       // bytes of each side

std::string Shown(const Json& json) {
  const std::string text = DumpJson(json);
  return text.size() <= kMostShown ? text : text.substr(0, kMostShown) + "…";
}

// The string at pattern[key], if the pattern is a special object with it.
const std::string* Special(const Json& pattern, const char* key) {
  if (!pattern.is_object() || !pattern.contains(key)) return nullptr;
  return pattern[key].get_ptr<const std::string*>();
}

bool IsSpecial(const Json& pattern, const char* key) {
  return pattern.is_object() && pattern.contains(key);
}

void Compare(const Json& pattern, const Json& value, const std::string& where,
             std::vector<std::string>& found) {
  if (found.size() >= kMostDifferences) return;
  const auto differs = [&] {
    found.push_back((where.empty() ? "/" : where) + ": expected " + Shown(pattern) + ", got " +
                    Shown(value));
  };
  if (pattern.is_array()) {
    if (!value.is_array() || value.size() != pattern.size()) return differs();
    for (size_t i = 0; i < pattern.size(); ++i) {
      Compare(pattern[i], value[i], where + "/" + std::to_string(i), found);
    }
    return;
  }
  if (!pattern.is_object()) {
    if (pattern != value) differs();
    return;
  }
  if (pattern.contains("$any")) return;
  if (pattern.contains("$contains")) {
    const std::string* const part = Special(pattern, "$contains");
    const std::string* const text = value.get_ptr<const std::string*>();
    if (!part || !text || text->find(*part) == std::string::npos) differs();
    return;
  }
  if (pattern.contains("$has")) {
    for (const Json& each : pattern["$has"]) {
      const bool fits =
          value.is_array() && std::any_of(value.begin(), value.end(), [&](const Json& item) {
            return Differences(each, item).empty();
          });
      if (!fits) found.push_back((where.empty() ? "/" : where) + ": nothing fits " + Shown(each));
    }
    return;
  }
  if (!value.is_object()) return differs();
  for (const auto& [key, expected] : pattern.items()) {
    const std::string inner = where + "/" + key;
    const bool absent = IsSpecial(expected, "$absent");
    if (absent == value.contains(key)) {
      found.push_back(inner + (absent ? ": should be absent, is " + Shown(value[key])
                                      : ": is missing, expected " + Shown(expected)));
    } else if (!absent) {
      Compare(expected, value[key], inner, found);
    }
  }
}

// True unless the pattern names a value and that is another.
bool Agree(const Json& pattern, const Json& value) {
  return pattern.is_null() || Differences(pattern, value).empty();
}

constexpr char kSubscription[] = "io.modelcontextprotocol/subscriptionId";

}  // namespace

std::vector<std::string> Differences(const Json& pattern, const Json& value) {
  std::vector<std::string> found;
  Compare(pattern, value, "", found);
  return found;
}

void TakeNames(const Json& pattern, const Json& value, Names& names) {
  if (const std::string* const name = Special(pattern, "$as")) {
    if (value.is_string()) names.Set(*name, value.get<std::string>());
  } else if (pattern.is_object() && value.is_object()) {
    for (const auto& [key, inner] : pattern.items()) {
      if (value.contains(key)) TakeNames(inner, value[key], names);
    }
  } else if (pattern.is_array() && value.is_array()) {
    for (size_t i = 0; i < std::min(pattern.size(), value.size()); ++i) {
      TakeNames(pattern[i], value[i], names);
    }
  }
}

bool IsMeant(const Json& pattern, const Json& message) {
  if (pattern.is_array() || message.is_array()) return pattern.is_array() && message.is_array();
  if (!pattern.is_object() || !message.is_object()) return true;
  if (pattern.contains("method")) {
    return message.contains("method") && Agree(pattern["method"], message["method"]) &&
           Agree(ValueAt(pattern, {"params", "progressToken"}),
                 ValueAt(message, {"params", "progressToken"})) &&
           Agree(ValueAt(pattern, {"params", "_meta", kSubscription}),
                 ValueAt(message, {"params", "_meta", kSubscription}));
  }
  if (!pattern.contains("id")) return true;
  return !message.contains("method") && message.contains("id") &&
         Differences(pattern["id"], message["id"]).empty();
}

Json InOrderOf(const Json& pattern, Json message) {
  if (!pattern.is_array() || !message.is_array()) return message;
  Json ordered = Json::array();
  for (const Json& each : pattern) {
    const auto found = std::find_if(message.begin(), message.end(), [&](const Json& element) {
      return element.is_object() && IsMeant(each, element);
    });
    if (found == message.end()) continue;
    ordered.push_back(*found);
    message.erase(found);
  }
  for (Json& rest : message) ordered.push_back(std::move(rest));
  return ordered;
}

}  // namespace mpnanny
