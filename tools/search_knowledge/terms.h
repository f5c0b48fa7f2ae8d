// Alternatives of a term: "fp16", "half precision" and 半精度 are one term. The groups stand in
// knowledge/search/terms.txt; a question and a case that put a thing in different words, or in different
// languages, meet in the term.
//
// Immutable once parsed; safe from any thread.
#ifndef MPNANNY_TOOLS_SEARCH_KNOWLEDGE_TERMS_H_
#define MPNANNY_TOOLS_SEARCH_KNOWLEDGE_TERMS_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace mpnanny::search_knowledge {

inline constexpr std::string_view kTermsFile = "knowledge/search/terms.txt";

class Terms {
 public:
  // One group a line, phrases separated by " | "; '#' begins a comment. Any text is valid.
  static Terms Parse(std::string_view text);

  // The terms that `text` holds, each once, as words that no text holds by itself: "term12".
  // A phrase in Latin letters is compared word by word, a Chinese one as it stands.
  std::vector<std::string> Find(std::string_view text) const;

  size_t size() const { return groups_; }

 private:
  struct LatinPhrase {
    std::vector<std::string> rest;  // words after the first
    size_t group = 0;
  };
  struct ChinesePhrase {
    std::string text;
    size_t group = 0;
  };
  std::unordered_map<std::string, std::vector<LatinPhrase>> latin_;  // by the first word
  std::vector<ChinesePhrase> chinese_;
  size_t groups_ = 0;
};

}  // namespace mpnanny::search_knowledge

#endif  // MPNANNY_TOOLS_SEARCH_KNOWLEDGE_TERMS_H_
