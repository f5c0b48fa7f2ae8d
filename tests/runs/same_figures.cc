#include "tests/runs/same_figures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace mpnanny::test {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// "65504", "3.4e38": with the point and the exponent, without a sign.
std::set<std::string> FiguresOf(const std::string& text) {
  std::set<std::string> figures;
  for (size_t at = 0; at < text.size(); ++at) {
    if (!IsDigit(text[at])) continue;
    const size_t from = at;
    while (at < text.size() && (IsDigit(text[at]) ||
                                (text[at] == '.' && at + 1 < text.size() && IsDigit(text[at + 1]))))
      ++at;
    figures.insert(text.substr(from, at - from));
  }
  return figures;
}

// A character of U+4000 to U+9FFF.
bool HasChinese(const std::string& text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0xE4 && byte <= 0xE9;
  });
}

std::string Text(const Json& value) { return value.get<std::string>(); }

}  // namespace

void ExpectSameFigures(const std::string& english, const std::string& chinese) {
  EXPECT_EQ(FiguresOf(english), FiguresOf(chinese)) << english << "\n" << chinese;
}

void ExpectChinese(const std::string& english, const std::string& chinese) {
  ExpectSameFigures(english, chinese);
  EXPECT_TRUE(HasChinese(chinese)) << chinese;
}

void ExpectChinese(const runs::Sentence& sentence) {
  if (sentence.empty()) return;
  ExpectChinese(sentence.English(), sentence.In(runs::Language::kChinese));
}

void ExpectChineseDiagnosis(const Json& diagnosis) {
  const Json& chinese = diagnosis["zh"];
  ExpectChinese(Text(diagnosis["headline"]), Text(chinese["headline"]));
  ExpectChinese(Text(diagnosis["next_measurement"]), Text(chinese["next_measurement"]));
  ASSERT_EQ(diagnosis["first_bad"].is_null(), chinese["first_bad"].is_null());
  // "NaN" alone is a sentence in both.
  if (!chinese["first_bad"].is_null()) {
    ExpectSameFigures(Text(diagnosis["first_bad"]["what"]), Text(chinese["first_bad"]["what"]));
  }
  ASSERT_EQ(diagnosis["limits"].size(), chinese["limits"].size());
  for (size_t i = 0; i < diagnosis["limits"].size(); ++i) {
    ExpectSameFigures(Text(diagnosis["limits"][i]), Text(chinese["limits"][i]));
  }
  ASSERT_EQ(diagnosis["hypotheses"].size(), chinese["hypotheses"].size());
  for (size_t i = 0; i < diagnosis["hypotheses"].size(); ++i) {
    const Json &english = diagnosis["hypotheses"][i], &words = chinese["hypotheses"][i];
    for (const char* const list : {"evidence", "against"}) {
      ASSERT_EQ(english[list].size(), words[list].size());
      for (size_t j = 0; j < english[list].size(); ++j) {
        // A case's title is its author's, in each language.
        if (Text(english[list][j]).starts_with("A documented case: ")) continue;
        ExpectChinese(Text(english[list][j]), Text(words[list][j]));
      }
    }
    EXPECT_FALSE(Text(words["title"]).empty());
    // So is what a case says of its fix.
    if (english["cause"].is_null()) ExpectChinese(Text(english["title"]), Text(words["title"]));
    if (english["cause"].is_null()) ExpectChinese(Text(english["fix"]), Text(words["fix"]));
  }
}

}  // namespace mpnanny::test
