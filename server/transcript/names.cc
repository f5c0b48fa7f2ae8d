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

// With `whole_names`, an occurrence that goes on as a longer name is another thing.
void Replace(std::string& text, const std::string& from, const std::string& to, bool whole_names) {
  if (from.empty()) return;
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;) {
    const size_t end = at + from.size();
    if (whole_names && end < text.size() && GoesOn(text[end])) {
      at = end;
      continue;
    }
    text.replace(at, from.size(), to);
    at += to.size();
  }
}

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

std::string Names::Hide(std::string text) const {
  for (const Name& name : names_) Replace(text, name.value, name.mark, name.is_path);
  return text;
}

std::string Names::Show(std::string text) const {
  for (const Name& name : names_) Replace(text, name.mark, name.value, false);
  return text;
}

Json Names::Hide(Json json) const {
  return Map(std::move(json), [this](std::string text) { return Hide(std::move(text)); });
}

Json Names::Show(Json json) const {
  return Map(std::move(json), [this](std::string text) { return Show(std::move(text)); });
}

}  // namespace mpnanny
