#include "engines/cases/vocabulary.h"

#include <algorithm>

#include "base/text.h"

namespace mpnanny::cases {

bool IsWord(std::span<const Word> words, std::string_view name) {
  return std::any_of(words.begin(), words.end(),
                     [&](const Word& word) { return word.name == name; });
}

std::string Names(std::span<const Word> words) { return Join(NameList(words), ", "); }

std::vector<std::string> NameList(std::span<const Word> words) {
  std::vector<std::string> names;
  names.reserve(words.size());
  for (const Word& word : words) names.emplace_back(word.name);
  return names;
}

bool IsKebab(std::string_view id) {
  const bool allowed = std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
  return allowed && !id.empty() && id.front() != '-' && id.back() != '-' &&
         id.find("--") == std::string_view::npos;
}

}  // namespace mpnanny::cases
