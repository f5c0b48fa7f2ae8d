#include "tools/search_knowledge/words.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "base/text.h"

namespace mpnanny::search_knowledge {
namespace {

bool IsLatin(unsigned char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Length in bytes of the Chinese character at `i`, 0 if there is none. CJK unified ideographs with
// extension A, and the compatibility block: all three bytes long. Bytes that are not UTF-8 are
// simply no Chinese.
size_t ChineseAt(std::string_view text, size_t i) {
  if (i + 3 > text.size()) return 0;
  const auto byte = [&](size_t k) { return static_cast<uint32_t>(static_cast<uint8_t>(text[k])); };
  if ((byte(i) & 0xF0) != 0xE0 || (byte(i + 1) & 0xC0) != 0x80 || (byte(i + 2) & 0xC0) != 0x80) {
    return 0;
  }
  const uint32_t c = (byte(i) & 0x0F) << 12 | (byte(i + 1) & 0x3F) << 6 | (byte(i + 2) & 0x3F);
  const bool ideograph =
      (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0xF900 && c <= 0xFAFF);
  return ideograph ? 3 : 0;
}

constexpr std::string_view kStopWords[] = {
    "a",     "an",     "and",   "any",  "are",   "as",   "at",    "be",    "but",  "by",   "can",
    "do",    "does",   "for",   "from", "get",   "gets", "has",   "have",  "how",  "i",    "if",
    "in",    "is",     "it",    "its",  "me",    "not",  "my",    "of",    "on",   "or",   "our",
    "s",     "should", "so",    "some", "than",  "that", "the",   "their", "them", "then", "there",
    "this",  "to",     "too",   "use",  "using", "very", "was",   "we",    "were", "what", "when",
    "where", "which",  "while", "why",  "will",  "with", "would", "wrong", "you"};

// Pairs of Chinese characters that stand in any question.
constexpr std::string_view kStopPairs[] = {"怎么", "么办", "什么", "为什", "如何", "请问",
                                           "是否", "可以", "应该", "问题", "有没", "出现"};

void AddOnce(std::vector<std::string>& list, std::string word, size_t most) {
  if (list.size() < most && std::find(list.begin(), list.end(), word) == list.end()) {
    list.push_back(std::move(word));
  }
}

}  // namespace

std::vector<std::string> LatinWords(std::string_view text) {
  std::vector<std::string> words;
  for (size_t i = 0; i < text.size();) {
    if (!IsLatin(static_cast<unsigned char>(text[i]))) {
      ++i;
      continue;
    }
    const size_t begin = i;
    while (i < text.size() && IsLatin(static_cast<unsigned char>(text[i]))) ++i;
    words.push_back(LowerCase(text.substr(begin, i - begin)));
  }
  return words;
}

std::vector<std::string> ChineseRuns(std::string_view text) {
  std::vector<std::string> runs;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (const size_t length = ChineseAt(text, end)) end += length;
    if (end > i) runs.emplace_back(text.substr(i, end - i));
    i = std::max(end, i + 1);
  }
  return runs;
}

std::vector<std::string> ChineseGrams(std::string_view text, bool singles) {
  std::vector<std::string> grams;
  for (const std::string& run : ChineseRuns(text)) {
    for (size_t i = 0; i < run.size(); i += 3) {
      if (singles || run.size() == 3) grams.push_back(run.substr(i, 3));
      if (i + 3 < run.size()) grams.push_back(run.substr(i, 6));
    }
  }
  return grams;
}

bool HasChinese(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (ChineseAt(text, i) > 0) return true;
  }
  return false;
}

std::string Stem(std::string_view word) {
  struct Ending {
    std::string_view cut, put;
  };
  constexpr Ending kEndings[] = {{"ies", "y"}, {"ing", ""}, {"edly", ""}, {"ed", ""},
                                 {"es", ""},   {"s", ""},   {"ly", ""}};
  constexpr size_t kShortest = 3;  // what must be left
  for (const Ending& ending : kEndings) {
    if (word.ends_with(ending.cut) && word.size() >= kShortest + ending.cut.size()) {
      return std::string(word.substr(0, word.size() - ending.cut.size())) + std::string(ending.put);
    }
  }
  return std::string(word);
}

QueryWords CutQuery(std::string_view query, size_t most) {
  QueryWords words;
  for (std::string& word : LatinWords(query)) {
    if (std::find(std::begin(kStopWords), std::end(kStopWords), word) != std::end(kStopWords))
      continue;
    AddOnce(words.latin, std::move(word), most);
  }
  for (std::string& gram : ChineseGrams(query, /*singles=*/false)) {
    if (std::find(std::begin(kStopPairs), std::end(kStopPairs), gram) != std::end(kStopPairs))
      continue;
    AddOnce(words.chinese, std::move(gram), most);
  }
  return words;
}

}  // namespace mpnanny::search_knowledge
