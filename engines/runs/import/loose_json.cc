#include "engines/runs/import/loose_json.h"

#include "base/json.h"
#include "engines/runs/import/field.h"

namespace mpnanny::imports {
namespace {

constexpr size_t kKeptTextBytes = 400;

class Reader {
 public:
  Reader(std::string_view text, const LooseEvents& events) : text_(text), events_(events) {}

  bool Document() {
    if (!Value()) return false;
    while (!open_.empty()) {
      if (!Next()) return false;
    }
    Blanks();
    return at_ == text_.size();
  }

 private:
  void Blanks() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
      ++at_;
    }
  }
  bool Take(char c) {
    Blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  // One element of what is open, or its end.
  bool Next() {
    const bool object = open_.back() == '{';
    if (Take(object ? '}' : ']')) {
      open_.pop_back();
      if (object && events_.end_object) events_.end_object(path_);
      if (!path_.empty()) path_.pop_back();
      first_ = false;
      return true;
    }
    if (!first_ && !Take(',')) return false;
    first_ = false;
    if (!object) {
      path_.emplace_back();
      return Value();
    }
    auto key = String();
    if (!key || !Take(':')) return false;
    path_.push_back(*std::move(key));
    return Value();
  }

  // A value whose key stands at the path's end; a scalar takes that key away again, an array or an
  // object at its end.
  bool Value() {
    Blanks();
    if (at_ >= text_.size()) return false;
    const char c = text_[at_];
    if (c == '{' || c == '[') {
      if (open_.size() >= kMaxJsonDepth) return false;
      open_ += c;
      ++at_;
      first_ = true;
      return true;
    }
    LooseValue value{path_, {}, {}};
    if (c == '"') {
      value.text = String();
      if (!value.text) return false;
      value.number = NumberOf(*value.text);
    } else if (text_.substr(at_).starts_with("null")) {
      at_ += 4;
    } else if (text_.substr(at_).starts_with("true")) {
      at_ += 4;
    } else if (text_.substr(at_).starts_with("false")) {
      at_ += 5;
    } else {
      value.number = NumberAt(text_, at_);
      if (!value.number) return false;
    }
    if (events_.value) events_.value(value);
    if (!path_.empty()) path_.pop_back();
    return true;
  }

  // A string's text; of a long one only the beginning. Escapes of one character are undone, \u is
  // kept as it is written: keys that matter have none.
  std::optional<std::string> String() {
    if (!Take('"')) return std::nullopt;
    std::string text;
    while (at_ < text_.size()) {
      char c = text_[at_++];
      if (c == '"') return text;
      if (c == '\\') {
        if (at_ >= text_.size()) return std::nullopt;
        c = text_[at_++];
        if (c == 'n' || c == 't' || c == 'r') c = ' ';
        if (c == 'u') text += '\\';
      }
      if (text.size() < kKeptTextBytes) text += c;
    }
    return std::nullopt;
  }

  std::string_view text_;
  const LooseEvents& events_;
  size_t at_ = 0;
  bool first_ = false;
  std::string open_;  // '{' and '[', outermost first
  std::vector<std::string> path_;
};

}  // namespace

bool ReadLooseJson(std::string_view text, const LooseEvents& events) {
  return Reader(text, events).Document();
}

std::string JoinPath(const std::vector<std::string>& path, size_t from) {
  std::string joined;
  for (size_t i = from; i < path.size(); ++i) {
    if (path[i].empty()) continue;
    if (!joined.empty()) joined += '/';
    joined += path[i];
  }
  return joined;
}

}  // namespace mpnanny::imports
