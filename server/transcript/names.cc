#include "server/transcript/names.h"

#include <algorithm>
#include <cctype>

#include "base/run_handle.h"

namespace mpnanny {
namespace {

bool GoesOn(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
}

// Every string inside `json` through `change`; keys stay.
template <typename Change>
Json Map(Json json, const Change& change) {
  if (json.is_string()) return change(json.get<std::string>());
  if (json.is_structured()) {
    for (Json& inner : json) inner = Map(std::move(inner), change);
  }
  return json;
}

// What stands for "$" in front of "{" where a text of the session itself looks like a name.
constexpr std::string_view kDollar = "${$}";

}  // namespace

Names::Names(const std::vector<std::string>& roots) {
  for (size_t i = 0; i < roots.size(); ++i) {
    if (roots[i].size() < 2) continue;  // "/" is in every path
    const std::string name = "root" + (i == 0 ? "" : std::to_string(i + 1));
    names_.push_back({"${" + name + "}", roots[i], true});
    names_.push_back({"${" + name + ":uri}", PercentEncode(roots[i]), true});
  }
  std::stable_sort(names_.begin(), names_.end(),
                   [](const Name& a, const Name& b) { return a.value.size() > b.value.size(); });
}

void Names::Set(const std::string& name, std::string value) {
  const std::string mark = "${" + name + "}";
  for (Name& known : names_) {
    if (known.mark == mark) {
      known.value = std::move(value);
      return;
    }
  }
  names_.push_back({mark, std::move(value), false});
}

bool Names::HasValue(std::string_view value) const {
  return std::any_of(names_.begin(), names_.end(),
                     [&](const Name& name) { return name.value == value; });
}

std::string Names::Hide(const std::string& text) const {
  std::string hidden;
  for (size_t at = 0; at < text.size();) {
    const auto name = std::find_if(names_.begin(), names_.end(), [&](const Name& each) {
      if (each.value.empty() || text.compare(at, each.value.size(), each.value) != 0) return false;
      const size_t end = at + each.value.size();
      return !each.is_path || end == text.size() || !GoesOn(text[end]);
    });
    if (name != names_.end()) {
      hidden += name->mark;
      at += name->value.size();
    } else if (text.compare(at, 2, "${") == 0) {
      hidden += kDollar;
      ++at;
    } else {
      hidden += text[at++];
    }
  }
  return hidden;
}

std::string Names::Show(const std::string& text) const {
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    const size_t mark = std::min(text.find("${", at), text.size());
    shown.append(text, at, mark - at);
    at = mark;
    if (at == text.size()) break;
    const auto name = std::find_if(names_.begin(), names_.end(), [&](const Name& each) {
      return text.compare(at, each.mark.size(), each.mark) == 0;
    });
    if (name != names_.end()) {
      shown += name->value;
      at += name->mark.size();
    } else {
      shown += '$';
      at += text.compare(at, kDollar.size(), kDollar) == 0 ? kDollar.size() : 1;
    }
  }
  return shown;
}

Json Names::Hide(Json json) const {
  return Map(std::move(json), [this](const std::string& text) { return Hide(text); });
}

Json Names::Show(Json json) const {
  return Map(std::move(json), [this](const std::string& text) { return Show(text); });
}

}  // namespace mpnanny
