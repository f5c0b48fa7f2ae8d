#include "engines/check/inputs/ignore_list.h"

#include <cctype>
#include <cstddef>

namespace mpnanny::check {
namespace {

// A pattern with many stars may try many ways; one that needs more than this matches nothing.
constexpr int kMostSteps = 200000;

// Whether a byte belongs to the POSIX class of that name ("alpha"); nullopt: no such class.
std::optional<bool> InClass(std::string_view name, unsigned char byte) {
  if (name == "alnum") return std::isalnum(byte) != 0;
  if (name == "alpha") return std::isalpha(byte) != 0;
  if (name == "blank") return byte == ' ' || byte == '\t';
  if (name == "cntrl") return std::iscntrl(byte) != 0;
  if (name == "digit") return std::isdigit(byte) != 0;
  if (name == "graph") return std::isgraph(byte) != 0;
  if (name == "lower") return std::islower(byte) != 0;
  if (name == "print") return std::isprint(byte) != 0;
  if (name == "punct") return std::ispunct(byte) != 0;
  if (name == "space") return std::isspace(byte) != 0;
  if (name == "upper") return std::isupper(byte) != 0;
  if (name == "xdigit") return std::isxdigit(byte) != 0;
  return std::nullopt;
}

class Matcher {
 public:
  Matcher(std::string_view pattern, std::string_view text, bool is_path)
      : pattern_(pattern), text_(text), is_path_(is_path) {}

  bool From(size_t p, size_t t) {
    for (; p < pattern_.size(); ++p, ++t) {
      if (++steps_ > kMostSteps) return false;
      if (pattern_[p] == '*') return Star(p, t);
      if (t == text_.size()) return false;
      switch (pattern_[p]) {
        case '?':
          if (is_path_ && text_[t] == '/') return false;
          break;
        case '[':
          if (!Set(&p, text_[t])) return false;
          break;
        case '\\':
          if (++p == pattern_.size()) return false;
          [[fallthrough]];
        default:
          if (pattern_[p] != text_[t]) return false;
      }
    }
    return t == text_.size();
  }

 private:
  bool At(size_t p, char c) const { return p < pattern_.size() && pattern_[p] == c; }

  bool Star(size_t p, size_t t) {
    const size_t first = p;
    while (At(p, '*')) ++p;
    bool crosses = !is_path_;
    if (is_path_ && p - first >= 2 && (first == 0 || pattern_[first - 1] == '/') &&
        (p == pattern_.size() || pattern_[p] == '/' || (pattern_[p] == '\\' && At(p + 1, '/')))) {
      crosses = true;
      // "**/" may stand for no folder at all.
      if (At(p, '/') && From(p + 1, t)) return true;
    }
    for (;; ++t) {
      if (++steps_ > kMostSteps) return false;
      if (From(p, t)) return true;
      if (t == text_.size() || (!crosses && text_[t] == '/')) return false;
    }
  }

  // `*p` is at '['; left at the closing ']'. An unfinished set matches nothing.
  bool Set(size_t* p, char c) const {
    const auto byte = static_cast<unsigned char>(c);
    size_t i = *p + 1;
    const bool negated = At(i, '!') || At(i, '^');
    if (negated) ++i;
    bool matched = false;
    int previous = -1;  // what a '-' counts from
    for (bool first = true; first || !At(i, ']'); first = false, ++i) {
      if (i >= pattern_.size()) return false;
      auto at = static_cast<unsigned char>(pattern_[i]);
      if (at == '-' && previous >= 0 && i + 1 < pattern_.size() && pattern_[i + 1] != ']') {
        if (At(++i, '\\') && ++i >= pattern_.size()) return false;
        matched = matched || (byte >= previous && byte <= static_cast<unsigned char>(pattern_[i]));
        previous = -1;
        continue;
      }
      if (at == '[' && At(i + 1, ':')) {
        const size_t close = pattern_.find(']', i + 2);
        if (close == std::string_view::npos) return false;
        if (close > i + 2 && pattern_[close - 1] == ':') {
          const auto in = InClass(pattern_.substr(i + 2, close - i - 3), byte);
          if (!in) return false;
          matched = matched || *in;
          previous = -1;
          i = close;
          continue;
        }
      } else if (at == '\\') {
        if (++i >= pattern_.size()) return false;
        at = static_cast<unsigned char>(pattern_[i]);
      }
      matched = matched || byte == at;
      previous = at;
    }
    *p = i;
    return matched != negated && !(is_path_ && c == '/');
  }

  const std::string_view pattern_;
  const std::string_view text_;
  const bool is_path_;
  int steps_ = 0;
};

}  // namespace

bool MatchesPattern(std::string_view pattern, std::string_view text, bool is_path) {
  return Matcher(pattern, text, is_path).From(0, 0);
}

IgnoreList::IgnoreList(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.starts_with('#')) continue;
    if (line.ends_with('\r')) line.remove_suffix(1);
    Add(line);
  }
}

IgnoreList::IgnoreList(const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) Add(pattern);
}

void IgnoreList::Add(std::string_view line) {
  // Spaces at the end do not count unless a backslash stands before them.
  size_t end = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\') ++i;
    if (i >= line.size() || line[i] != ' ' || (i > 0 && line[i - 1] == '\\')) end = i + 1;
  }
  line = line.substr(0, end);
  Pattern pattern;
  if (line.starts_with('!')) {
    pattern.negated = true;
    line.remove_prefix(1);
  }
  if (line.ends_with('/')) {
    pattern.folders_only = true;
    line.remove_suffix(1);
  }
  pattern.name_only = line.find('/') == std::string_view::npos;
  if (line.starts_with('/')) line.remove_prefix(1);
  if (line.empty()) return;
  pattern.literal = line.find_first_of("*?[\\") == std::string_view::npos;
  pattern.text = std::string(line);
  patterns_.push_back(std::move(pattern));
}

std::optional<bool> IgnoreList::Match(std::string_view path, bool is_folder) const {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  for (auto it = patterns_.rbegin(); it != patterns_.rend(); ++it) {
    if (it->folders_only && !is_folder) continue;
    const std::string_view whole = it->name_only ? name : path;
    if (it->literal ? it->text == whole : MatchesPattern(it->text, whole, !it->name_only)) {
      return !it->negated;
    }
  }
  return std::nullopt;
}

bool IgnoreList::Excludes(std::string_view file) const {
  if (patterns_.empty()) return false;
  for (size_t slash = file.find('/'); slash != std::string_view::npos;
       slash = file.find('/', slash + 1)) {
    if (Match(file.substr(0, slash), true).value_or(false)) return true;
  }
  return Match(file, false).value_or(false);
}

}  // namespace mpnanny::check
