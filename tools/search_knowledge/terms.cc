#include "tools/search_knowledge/terms.h"

#include <algorithm>

#include "base/text.h"
#include "tools/search_knowledge/words.h"

namespace mpnanny::search_knowledge {
namespace {

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

}  // namespace

Terms Terms::Parse(std::string_view text) {
  constexpr std::string_view kBetween = " | ";
  Terms terms;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view line = Trimmed(text.substr(start, end - start));
    start = end + 1;
    if (line.empty() || line.front() == '#') continue;
    const size_t group = terms.groups_++;
    for (size_t at = 0; at < line.size();) {
      const size_t bar = std::min(line.find(kBetween, at), line.size());
      const std::string phrase = LowerCase(Trimmed(line.substr(at, bar - at)));
      at = bar + kBetween.size();
      if (HasChinese(phrase)) {
        terms.chinese_.push_back({phrase, group});
        continue;
      }
      std::vector<std::string> words = LatinWords(phrase);
      if (words.empty()) continue;
      std::vector<LatinPhrase>& phrases = terms.latin_[words.front()];
      phrases.push_back({{words.begin() + 1, words.end()}, group});
    }
  }
  return terms;
}

std::vector<std::string> Terms::Find(std::string_view text) const {
  std::vector<bool> found(groups_, false);
  const std::vector<std::string> words = LatinWords(text);
  for (size_t i = 0; i < words.size(); ++i) {
    const auto phrases = latin_.find(words[i]);
    if (phrases == latin_.end()) continue;
    for (const LatinPhrase& phrase : phrases->second) {
      const size_t left = words.size() - i - 1;
      if (phrase.rest.size() <= left &&
          std::equal(phrase.rest.begin(), phrase.rest.end(), words.begin() + i + 1)) {
        found[phrase.group] = true;
      }
    }
  }
  if (HasChinese(text)) {
    const std::string lower = LowerCase(text);
    for (const ChinesePhrase& phrase : chinese_) {
      if (!found[phrase.group] && lower.find(phrase.text) != std::string::npos) {
        found[phrase.group] = true;
      }
    }
  }
  std::vector<std::string> terms;
  for (size_t group = 0; group < groups_; ++group) {
    if (found[group]) terms.push_back("term" + std::to_string(group));
  }
  return terms;
}

}  // namespace mpnanny::search_knowledge
