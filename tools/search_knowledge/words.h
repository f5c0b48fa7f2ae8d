// Cutting text into what the index and the query are compared by.
//
// Latin text becomes lower-case runs of letters and digits. Chinese has no blanks, and FTS5's
// trigrams match nothing under three characters while 溢出 has two: it becomes single characters
// and overlapping pairs (溢, 溢出, 出). Text and query are cut by the same functions, so nothing
// that a person types is ever seen by FTS5 as an operator.
//
// Free functions without state; safe from any thread.
#ifndef MPNANNY_TOOLS_SEARCH_KNOWLEDGE_WORDS_H_
#define MPNANNY_TOOLS_SEARCH_KNOWLEDGE_WORDS_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mpnanny::search_knowledge {

// Lower-case runs of ASCII letters and digits, in their order: "GradScaler's 1e-8" gives
// gradscaler, s, 1e, 8.
std::vector<std::string> LatinWords(std::string_view text);

// Runs of Chinese characters, as UTF-8: "用fp16溢出" gives 用 and 溢出.
std::vector<std::string> ChineseRuns(std::string_view text);

// Single characters and overlapping pairs of every run; pairs only where a run has two characters
// or more if `singles` is false.
std::vector<std::string> ChineseGrams(std::string_view text, bool singles);

// True if the text holds a Chinese character.
bool HasChinese(std::string_view text);

// Words of a query that are worth looking for, at most `most`, each once: words that say nothing
// ("the", "怎么") are left out.
struct QueryWords {
  std::vector<std::string> latin;
  std::vector<std::string> chinese;
};
QueryWords CutQuery(std::string_view query, size_t most = 200);

// An English word without its usual endings ("overflows", "overflowed" become "overflow").
std::string Stem(std::string_view word);

}  // namespace mpnanny::search_knowledge

#endif  // MPNANNY_TOOLS_SEARCH_KNOWLEDGE_WORDS_H_
