#include "tools/runs/sentence.h"

#include <utility>

namespace mpnanny::runs {
namespace {

constexpr std::string_view kChineseStop = "。";

// "step" of "1" and "step", "steps" of "2" and "step", "losses" of "2" and "loss|losses".
std::string Noun(std::string_view count, std::string_view nouns) {
  const size_t bar = nouns.find('|');
  const std::string one(nouns.substr(0, bar));
  if (count == "1") return one;
  return bar == std::string_view::npos ? one + "s" : std::string(nouns.substr(bar + 1));
}

std::string Fill(std::string_view form, const std::vector<std::string>& parts) {
  std::string text;
  while (true) {
    const size_t open = form.find('{');
    const size_t close = open == std::string_view::npos ? open : form.find('}', open);
    text += form.substr(0, open);
    if (close == std::string_view::npos) return text;
    const std::string_view hole = form.substr(open + 1, close - open - 1);
    const auto part = static_cast<size_t>(hole[0] - '0');
    if (part < parts.size()) {
      text += parts[part];
      if (hole.size() > 2) text += " " + Noun(parts[part], hole.substr(2));
    }
    form.remove_prefix(close + 1);
  }
}

// Sentences in Chinese stand without a blank between them.
bool NeedsBlank(const std::string& text, Language language) {
  return !text.empty() && !(language == Language::kChinese && text.ends_with(kChineseStop));
}

}  // namespace

Sentence::Sentence(Form form, std::vector<Sentence> parts)
    : english_(form.In(Language::kEnglish)),
      chinese_(form.In(Language::kChinese)),
      parts_(std::move(parts)) {}

Sentence Sentence::InEach(std::string english, std::string chinese) {
  Sentence sentence(std::move(english));
  sentence.chinese_text_ = std::move(chinese);
  return sentence;
}

Sentence Sentence::List(const std::vector<Sentence>& words) {
  std::string english, chinese;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool last = i + 1 == words.size();
    english += (i == 0 ? "" : last ? " and " : ", ") + words[i].In(Language::kEnglish);
    chinese += (i == 0 ? "" : last ? " 和 " : "、") + words[i].In(Language::kChinese);
  }
  return InEach(std::move(english), std::move(chinese));
}

Sentence& Sentence::operator+=(Sentence next) {
  if (!next.empty()) next_.push_back(std::move(next));
  return *this;
}

Sentence Sentence::Bare() && {
  bare_ = true;
  return std::move(*this);
}

Sentence Sentence::Capital() && {
  capital_ = true;
  return std::move(*this);
}

bool Sentence::empty() const { return text_.empty() && english_.empty() && next_.empty(); }

std::string Sentence::Own(Language language) const {
  if (english_.empty()) {
    return language == Language::kChinese && !chinese_text_.empty() ? chinese_text_ : text_;
  }
  std::vector<std::string> parts;
  for (const Sentence& part : parts_) parts.push_back(part.In(language));
  return Fill(language == Language::kChinese ? chinese_ : english_, parts);
}

std::string Sentence::In(Language language) const {
  std::string text = Own(language);
  for (const Sentence& each : next_) {
    const std::string more = each.In(language);
    if (!more.empty() && NeedsBlank(text, language)) text += " ";
    text += more;
  }
  if (capital_ && !text.empty() && text[0] >= 'a' && text[0] <= 'z') {
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  }
  if (bare_ && text.ends_with('.')) text.pop_back();
  if (bare_ && text.ends_with(kChineseStop)) text.resize(text.size() - kChineseStop.size());
  return text;
}

}  // namespace mpnanny::runs
