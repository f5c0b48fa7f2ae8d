#include "tools/search_knowledge/term_vectors.h"

#include <cmath>
#include <map>
#include <set>

namespace mpnanny::search_knowledge {

TermVectors TermVectors::Build(const std::vector<std::vector<std::vector<std::string>>>& cases) {
  TermVectors vectors;
  vectors.cases_ = cases.size();
  double texts = 0;
  std::map<std::string, double> held;                         // texts of all cases with the word
  std::vector<std::map<std::string, double>> of(cases.size());  // the same of each case
  for (size_t i = 0; i < cases.size(); ++i) {
    for (const std::vector<std::string>& text : cases[i]) {
      ++texts;
      for (const std::string& word : std::set<std::string>(text.begin(), text.end())) {
        ++held[word];
        ++of[i][word];
      }
    }
  }
  for (const auto& [word, count] : held) vectors.words_[word].rarity = std::log(texts / count);
  for (size_t i = 0; i < cases.size(); ++i) {
    double square = 0;
    for (auto& [word, count] : of[i]) {
      count = std::log1p(count) * vectors.words_[word].rarity;
      square += count * count;
    }
    if (square == 0) continue;
    for (const auto& [word, weight] : of[i]) {
      vectors.words_[word].postings.push_back({i, weight / std::sqrt(square)});
    }
  }
  return vectors;
}

std::vector<double> TermVectors::Cosines(const std::vector<std::string>& words) const {
  std::vector<double> cosines(cases_, 0);
  double square = 0;
  for (const std::string& name : std::set<std::string>(words.begin(), words.end())) {
    const auto found = words_.find(name);
    if (found == words_.end()) continue;
    const Term& word = found->second;
    square += word.rarity * word.rarity;
    for (const Posting& posting : word.postings) {
      cosines[posting.at] += word.rarity * posting.weight;
    }
  }
  for (double& cosine : cosines) cosine = square > 0 ? cosine / std::sqrt(square) : 0;
  return cosines;
}

}  // namespace mpnanny::search_knowledge
