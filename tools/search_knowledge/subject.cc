#include "tools/search_knowledge/subject.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "tools/search_knowledge/words.h"

namespace mpnanny::search_knowledge {
namespace {

constexpr double kPrior = 0.5;         // Laplace's count for what was not seen
constexpr double kUnknownWord = -0.3;  // a word that neither side holds

std::set<std::string> WordsOf(std::string_view text) {
  QueryWords words = CutQuery(text);
  std::set<std::string> all(words.latin.begin(), words.latin.end());
  all.insert(words.chinese.begin(), words.chinese.end());
  return all;
}

}  // namespace

Subject Subject::Learn(const std::vector<std::string>& ours, std::string_view others) {
  std::unordered_map<std::string, std::array<double, 2>> counts;
  std::array<double, 2> texts{};
  const auto add = [&](std::string_view text, size_t side) {
    const std::set<std::string> words = WordsOf(text);
    if (words.empty()) return;
    ++texts[side];
    for (const std::string& word : words) ++counts[word][side];
  };
  for (const std::string& text : ours) add(text, 0);
  for (size_t start = 0; start < others.size();) {
    const size_t end = std::min(others.find('\n', start), others.size());
    const std::string_view line = others.substr(start, end - start);
    if (!line.starts_with('#')) add(line, 1);
    start = end + 1;
  }
  Subject subject;
  if (texts[0] == 0 || texts[1] == 0) return subject;
  const double other_prior = kPrior * texts[1] / texts[0];
  for (const auto& [word, count] : counts) {
    const double here = (count[0] + kPrior) / (texts[0] + 2 * kPrior);
    const double there = (count[1] + other_prior) / (texts[1] + 2 * kPrior);
    subject.weights_[word] = std::log(here / there);
  }
  return subject;
}

double Subject::LogOdds(std::string_view question) const {
  const std::set<std::string> words = WordsOf(question);
  double sum = 0;
  for (const std::string& word : words) {
    const auto weight = weights_.find(word);
    sum += weight == weights_.end() ? kUnknownWord : weight->second;
  }
  return words.empty() ? 0 : sum / std::sqrt(static_cast<double>(words.size()));
}

}  // namespace mpnanny::search_knowledge
