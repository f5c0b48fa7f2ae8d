#include "engines/runs/sentence.h"

#include <utility>

namespace mpnanny::runs {
namespace {

constexpr std::string_view kChineseStop = "。";

// Of the character that begins or ends a text: a Chinese one, a Chinese mark of punctuation, or one
// of those that Latin words and figures are made of.
enum class Script { kNone, kChinese, kMark, kLatin };

Script ScriptOf(std::string_view character) {
  if (character.empty() || character == " ") return Script::kNone;
  const auto lead = static_cast<unsigned char>(character.front());
  if (lead >= 0xE4 && lead <= 0xE9) return Script::kChinese;                    // U+4000 to U+9FFF
  if (lead == 0xEF || character.starts_with("\xE3\x80")) return Script::kMark;  // ，（）：；、。
  return lead < 0x80 ? Script::kLatin : Script::kNone;
}

std::string_view First(std::string_view text) {
  size_t end = text.empty() ? 0 : 1;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
  return text.substr(0, end);
}

std::string_view Last(std::string_view text) {
  size_t from = text.empty() ? 0 : text.size() - 1;
  while (from > 0 && (static_cast<unsigned char>(text[from]) & 0xC0) == 0x80) --from;
  return text.substr(from);
}

// Puts a part behind a Chinese text as it is typeset: a blank between Chinese and Latin characters,
// none beside a Chinese mark nor between two Chinese characters.
void AppendChinese(std::string& text, std::string_view part) {
  bool blank = text.ends_with(' ');
  if (blank) text.pop_back();
  if (part.starts_with(' ')) {
    blank = true;
    part.remove_prefix(1);
  }
  const Script last = ScriptOf(Last(text)), next = ScriptOf(First(part));
  const bool mixed = (last == Script::kChinese && next == Script::kLatin) ||
                     (last == Script::kLatin && next == Script::kChinese);
  const bool close = text.empty() || last == Script::kMark || next == Script::kMark ||
                     (last == Script::kChinese && next == Script::kChinese);
  if ((blank || mixed) && !close) text += ' ';
  text += part;
}

void Append(std::string& text, std::string_view part, Language language) {
  if (language == Language::kChinese) {
    AppendChinese(text, part);
  } else {
    text += part;
  }
}

// "step" of "1" and "step", "steps" of "2" and "step", "losses" of "2" and "loss|losses".
std::string Noun(std::string_view count, std::string_view nouns) {
  const size_t bar = nouns.find('|');
  const std::string one(nouns.substr(0, bar));
  if (count == "1") return one;
  return bar == std::string_view::npos ? one + "s" : std::string(nouns.substr(bar + 1));
}

std::string Fill(std::string_view form, const std::vector<std::string>& parts, Language language) {
  std::string text;
  while (true) {
    const size_t open = form.find('{');
    const size_t close = open == std::string_view::npos ? open : form.find('}', open);
    Append(text, form.substr(0, open), language);
    if (close == std::string_view::npos) return text;
    const std::string_view hole = form.substr(open + 1, close - open - 1);
    const auto part = static_cast<size_t>(hole[0] - '0');
    if (part < parts.size()) {
      Append(text, parts[part], language);
      if (hole.size() > 2) text += " " + Noun(parts[part], hole.substr(2));
    }
    form.remove_prefix(close + 1);
  }
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
    AppendChinese(chinese, i == 0 ? "" : last ? "和" : "、");
    AppendChinese(chinese, words[i].In(Language::kChinese));
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
  return Fill(language == Language::kChinese ? chinese_ : english_, parts, language);
}

std::string Sentence::In(Language language) const {
  std::string text = Own(language);
  for (const Sentence& each : next_) {
    const std::string more = each.In(language);
    if (!text.empty() && !more.empty()) text += " ";
    Append(text, more, language);
  }
  if (capital_ && !text.empty() && text[0] >= 'a' && text[0] <= 'z') {
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  }
  if (bare_ && text.ends_with('.')) text.pop_back();
  if (bare_ && text.ends_with(kChineseStop)) text.resize(text.size() - kChineseStop.size());
  return text;
}

}  // namespace mpnanny::runs
