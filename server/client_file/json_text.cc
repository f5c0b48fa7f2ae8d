#include "server/client_file/json_text.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.h"

namespace mpnanny {
namespace {

constexpr int kMostDepth = 200;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text) : text_(text) {
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  }

  Result<JsonText> Scan() {
    SkipBlank();
    if (!wrong_ && at_ < text_.size()) {
      Value(result_.root, 0);
      SkipBlank();
      if (at_ < text_.size()) Wrong("there is more behind the end of the first value");
    }
    if (wrong_) return *wrong_;
    return std::move(result_);
  }

 private:
  void Wrong(const std::string& what) { WrongAt(at_, what); }
  void WrongAt(size_t at, const std::string& what) {
    if (wrong_) return;
    wrong_ = InvalidInput("line " + std::to_string(LineOf(text_, at)) + ": " + what + ".");
  }

  bool Next(char c) {
    if (wrong_ || at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void SkipBlank() {
    while (!wrong_ && at_ < text_.size()) {
      const std::string_view rest = text_.substr(at_);
      if (std::string_view(" \t\r\n").find(rest.front()) != std::string_view::npos) {
        ++at_;
      } else if (rest.starts_with("//")) {
        Lenient(at_);
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (rest.starts_with("/*")) {
        Lenient(at_);
        const size_t end = text_.find("*/", at_ + 2);
        if (end == std::string_view::npos) return Wrong("a comment that does not end");
        at_ = end + 2;
      } else {
        return;
      }
    }
  }

  void Lenient(size_t at) {
    if (result_.lenient_at == JsonPart::kNowhere) result_.lenient_at = at;
  }

  void Value(JsonPart& part, int depth) {
    part.value = at_;
    if (depth > kMostDepth) return Wrong("values are nested too deeply");
    if (Next('{')) {
      part.kind = JsonPart::Kind::kObject;
      Parts(part, '}', depth);
    } else if (Next('[')) {
      part.kind = JsonPart::Kind::kArray;
      Parts(part, ']', depth);
    } else {
      part.kind = JsonPart::Kind::kPlain;
      Plain();
    }
    part.end = at_;
  }

  void Parts(JsonPart& whole, char close, int depth) {
    for (;;) {
      SkipBlank();
      if (wrong_) return;
      if (Next(close)) {
        if (!whole.parts.empty() && whole.parts.back().comma != JsonPart::kNowhere) {
          Lenient(whole.parts.back().comma);
        }
        return;
      }
      if (!whole.parts.empty() && whole.parts.back().comma == JsonPart::kNowhere) {
        return Wrong(at_ < text_.size() ? "a comma is missing before " + Shown()
                                        : "the text ends before its brackets are closed");
      }
      JsonPart part;
      part.begin = at_;
      if (close == '}') Key(part);
      if (wrong_) return;
      Value(part, depth + 1);
      if (wrong_) return;
      SkipBlank();
      const size_t comma = at_;
      if (Next(',')) part.comma = comma;
      whole.parts.push_back(std::move(part));
    }
  }

  void Key(JsonPart& part) {
    if (at_ >= text_.size()) return Wrong("the text ends before its brackets are closed");
    if (text_[at_] != '"') return Wrong("a name in double quotes is expected, not " + Shown());
    const size_t begin = at_;
    Plain();
    if (wrong_) return;
    part.key = ParseJson(text_.substr(begin, at_ - begin))->get<std::string>();
    SkipBlank();
    if (!Next(':'))
      return Wrong("a colon is missing behind \"" + EscapeControl(part.key, 60) + "\"");
    SkipBlank();
  }

  // A string, a number or a word.
  void Plain() {
    const size_t begin = at_;
    if (Next('"')) {
      while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') {
        at_ += text_[at_] == '\\' ? 2 : 1;
      }
      if (!Next('"')) return WrongAt(begin, "a text that does not end");
    } else {
      at_ = std::min(text_.find_first_of(" \t\r\n,:{}[]\"/", at_), text_.size());
    }
    if (at_ > text_.size()) return WrongAt(begin, "a text that does not end");
    if (at_ == begin) {
      return Wrong(at_ < text_.size() ? "a value is expected, not " + Shown()
                                      : "the text ends where a value is expected");
    }
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (!ParseJson(word)) WrongAt(begin, "'" + EscapeControl(word, 60) + "' is no JSON value");
  }

  std::string Shown() const { return "'" + EscapeControl(text_.substr(at_, 12), 20) + "'"; }

  std::string_view text_;
  size_t at_ = 0;
  JsonText result_;
  std::optional<Error> wrong_;
};

}  // namespace

const JsonPart* JsonPart::Find(std::string_view name) const {
  const auto found =
      std::find_if(parts.rbegin(), parts.rend(), [&](const JsonPart& p) { return p.key == name; });
  return found == parts.rend() ? nullptr : &*found;
}

Result<JsonText> ScanJson(std::string_view text) { return JsonScanner(text).Scan(); }

Json ValueOf(std::string_view text, const JsonPart& part) {
  switch (part.kind) {
    case JsonPart::Kind::kNone:
      return nullptr;
    case JsonPart::Kind::kObject: {
      Json object = Json::object();
      for (const JsonPart& member : part.parts) object[member.key] = ValueOf(text, member);
      return object;
    }
    case JsonPart::Kind::kArray: {
      Json array = Json::array();
      for (const JsonPart& element : part.parts) array.push_back(ValueOf(text, element));
      return array;
    }
    case JsonPart::Kind::kPlain:
      break;
  }
  return *ParseJson(text.substr(part.value, part.end - part.value));
}

size_t LineOf(std::string_view text, size_t at) {
  return 1 + static_cast<size_t>(
                 std::count(text.begin(), text.begin() + std::min(at, text.size()), '\n'));
}

}  // namespace mpnanny
