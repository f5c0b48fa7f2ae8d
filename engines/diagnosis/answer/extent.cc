#include "engines/diagnosis/answer/extent.h"

#include <cmath>

#include "engines/diagnosis/answer/shorten.h"

namespace mpnanny::diagnosis {

std::vector<std::string> Cut(const std::vector<runs::Sentence>& sentences, size_t most,
                             size_t bytes, runs::Language language) {
  std::vector<std::string> cut;
  for (const runs::Sentence& sentence : sentences) {
    if (cut.size() == most) break;
    cut.push_back(Shorten(sentence.In(language), bytes));
  }
  return cut;
}

std::string AboutLog(const Facts& facts, const Diagnosis& d) {
  std::string text = facts.lines.Located(d.reason.English());
  if (d.first_bad) text += " step " + std::to_string(d.first_bad->step);
  return text;
}

std::string TitleOf(const Hypothesis& h, runs::Language language) {
  if (!h.title.empty() || !h.cause) return h.title.In(language);
  return runs::Sentence::InEach(h.cause->title, h.cause->title_zh).In(language);
}

std::string FixOf(const Hypothesis& h, size_t bytes, runs::Language language) {
  const std::string documented =
      h.cause ? runs::Sentence::InEach(h.cause->fix, h.cause->fix_zh).In(language) : "";
  if (h.fix.empty()) return Shorten(documented, bytes);
  const std::string own = Shorten(h.fix.In(language), bytes);
  if (!h.cause) return own;
  const char* const says =
      language == runs::Language::kChinese ? " 该案例的修复：" : " The case says: ";
  return own + says + Shorten(documented, bytes / 2);
}

double Rounded(double confidence) { return std::round(confidence * 100) / 100; }

}  // namespace mpnanny::diagnosis
