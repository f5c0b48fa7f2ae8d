// A sentence of an answer in every language that answers are shown in: which form it has, and the
// figures and names that stand in it. Made where a fact is judged, put into words where it is
// shown.
//
// Plain values. What has no form in a language yet is shown in English there.
#ifndef MPNANNY_ENGINES_RUNS_SENTENCE_H_
#define MPNANNY_ENGINES_RUNS_SENTENCE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mpnanny::runs {

enum class Language { kEnglish, kChinese };

// The words of a sentence, in which {0}, {1} … stand for its parts. In English {0:step} is a count
// with its noun ("1 step", "2 steps"), {0:loss|losses} one with its plural.
class Form {
 public:
  // Both forms hold the same parts and the same figures: else it does not compile. Literals, which
  // live as long as the program.
  consteval Form(const char* english, const char* chinese) : english_(english), chinese_(chinese) {
    if (PartsOf(english_) != PartsOf(chinese_))
      throw "The forms of a sentence differ in their parts.";
    if (!HoldsFiguresOf(chinese_, english_) || !HoldsFiguresOf(english_, chinese_)) {
      throw "The forms of a sentence differ in their figures.";
    }
  }
  std::string_view In(Language language) const {
    return language == Language::kChinese ? chinese_ : english_;
  }

 private:
  static consteval uint32_t PartsOf(std::string_view text) {
    uint32_t parts = 0;
    for (size_t at = 0; at + 1 < text.size(); ++at) {
      if (text[at] != '{') continue;
      if (text[at + 1] < '0' || text[at + 1] > '9') throw "A part has a number of one digit.";
      parts |= uint32_t{1} << (text[at + 1] - '0');
    }
    return parts;
  }

  static consteval bool IsDigit(char c) { return c >= '0' && c <= '9'; }

  // Whether every number outside of the parts of one form, "65504" or "0.97", stands in the other.
  static consteval bool HoldsFiguresOf(std::string_view other, std::string_view form) {
    for (size_t at = 0; at < form.size(); ++at) {
      if (form[at] == '{') at = form.find('}', at);
      if (!IsDigit(form[at])) continue;
      size_t end = at + 1;
      while (end < form.size() &&
             (IsDigit(form[end]) ||
              (form[end] == '.' && end + 1 < form.size() && IsDigit(form[end + 1])))) {
        ++end;
      }
      if (other.find(form.substr(at, end - at)) == std::string_view::npos) return false;
      at = end - 1;
    }
    return true;
  }

  std::string_view english_, chinese_;
};

class Sentence {
 public:
  Sentence() = default;
  // What is the same in every language, a figure or a name; or what has an English form only.
  Sentence(std::string text) : text_(std::move(text)) {}  // NOLINT(google-explicit-constructor)
  Sentence(const char* text) : text_(text) {}             // NOLINT(google-explicit-constructor)
  Sentence(int64_t number)
      : text_(std::to_string(number)) {}                  // NOLINT(google-explicit-constructor)
  Sentence(Form form, std::vector<Sentence> parts = {});  // NOLINT(google-explicit-constructor)

  // Words of a table, or a figure that is written otherwise.
  static Sentence InEach(std::string english, std::string chinese);

  // "a, b and c".
  static Sentence List(const std::vector<Sentence>& words);

  // Another sentence behind it.
  Sentence& operator+=(Sentence next);
  // The same without a full stop at its end, for a title.
  Sentence Bare() &&;
  // The same with a capital letter, where it stands alone.
  Sentence Capital() &&;

  bool empty() const;
  std::string In(Language language) const;
  std::string English() const { return In(Language::kEnglish); }
  // Whether they say the same.
  friend bool operator==(const Sentence& a, const Sentence& b) {
    return a.English() == b.English();
  }

 private:
  std::string Own(Language language) const;

  std::string text_, chinese_text_;     // without a form; the second where it differs
  std::string_view english_, chinese_;  // of a form; both empty without one
  std::vector<Sentence> parts_, next_;
  bool bare_ = false, capital_ = false;
};

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_SENTENCE_H_
