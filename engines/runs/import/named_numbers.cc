#include "engines/runs/import/named_numbers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>

#include "engines/runs/import/field.h"

namespace mpnanny::imports {
namespace {

enum : uint8_t { kAlpha = 1, kDigit = 2, kInKey = 4, kBlank = 8 };

constexpr std::array<uint8_t, 256> MakeKinds() {
  std::array<uint8_t, 256> kinds{};
  for (int c = 'a'; c <= 'z'; ++c) kinds[static_cast<size_t>(c)] = kAlpha | kInKey;
  for (int c = 'A'; c <= 'Z'; ++c) kinds[static_cast<size_t>(c)] = kAlpha | kInKey;
  for (int c = '0'; c <= '9'; ++c) kinds[static_cast<size_t>(c)] = kDigit | kInKey;
  for (const char c : {'_', '/', '.', '-', '@', '%', '#', '^'})
    kinds[static_cast<size_t>(c)] = kInKey;
  for (const char c : {' ', '\t'}) kinds[static_cast<size_t>(c)] = kBlank;
  return kinds;
}
constexpr std::array<uint8_t, 256> kKinds = MakeKinds();

bool Is(char c, uint8_t kind) { return kKinds[static_cast<uint8_t>(c)] & kind; }

class Scanner {
 public:
  Scanner(std::string_view line, std::vector<NamedNumber>& into) : line_(line), into_(into) {}

  void Run() {
    while (at_ < line_.size()) {
      if (!Is(line_[at_], kAlpha) && line_[at_] != '_') {
        // "1.2it/s" and "3e-4" hold no name.
        if (Is(line_[at_], kDigit)) {
          while (at_ < line_.size() && Is(line_[at_], kInKey)) ++at_;
        } else {
          ++at_;
        }
        continue;
      }
      Key();
    }
  }

 private:
  char Char(size_t at) const { return at < line_.size() ? line_[at] : '\0'; }
  void SkipBlanks(size_t& at) const {
    while (at < line_.size() && Is(line_[at], kBlank)) ++at;
  }

  // Words with single blanks between them, from `at_` on, and the number behind; moves on.
  void Key() {
    size_t start = at_;
    size_t word = at_, end = at_;
    while (true) {
      word = end;
      while (end < line_.size() && Is(line_[end], kInKey)) ++end;
      if (Char(end) != ' ' || !Is(Char(end + 1), kAlpha) || IsWordNumber(end + 1)) break;
      if (Char(end - 1) == '.' || Char(end - 1) == '-') break;  // a sentence ended
      ++end;
      if (IsLevel(line_.substr(start, end - 1 - start))) start = end;
    }
    size_t next = end;
    // "time (ms):" and "loss[train]:"
    size_t unit = Char(end) == ' ' ? end + 1 : end;
    size_t name_end = end;
    if (Char(unit) == '(' || Char(unit) == '[') {
      const char close = Char(unit) == '(' ? ')' : ']';
      const size_t closed = line_.find(close, unit);
      if (closed != std::string_view::npos && closed - unit < kUnitBytes &&
          (Char(closed + 1) == ':' || Char(closed + 1) == '=')) {
        next = name_end = closed + 1;
      }
    }
    if (Char(next) == '\'' || Char(next) == '"') ++next;
    SkipBlanks(next);
    const bool sign = Char(next) == ':' || Char(next) == '=';
    // "val loss is 0.03": the words before it are the name.
    const std::string_view last = line_.substr(word, name_end - word);
    const bool verb = !sign && word > start && name_end == end && (last == "is" || last == "was");
    if (verb) name_end = word - 1;
    const bool separated = sign || verb;
    if (sign) {
      ++next;
    } else if (!verb && (next == name_end || name_end == word)) {
      at_ = std::max(end, start + 1);
      return;
    }
    SkipBlanks(next);
    const std::string_view name =
        line_.substr(separated ? start : word, name_end - (separated ? start : word));
    const bool good = separated ? IsName(name) : IsBareName(name);
    size_t behind = next;
    if (const auto value = good ? Value(behind, separated) : std::nullopt) {
      into_.push_back({name, *value});
      at_ = behind;
      return;
    }
    at_ = std::max(separated ? next : end, start + 1);
  }

  // What loggers put before a line.
  static bool IsLevel(std::string_view word) {
    return word == "INFO" || word == "DEBUG" || word == "WARNING" || word == "ERROR";
  }

  // "nan" or "inf" as a word of its own: the number of the words before it.
  bool IsWordNumber(size_t at) const {
    const char c = static_cast<char>(line_[at] | 0x20);
    return (c == 'n' || c == 'i') && NumberAt(line_, at).has_value();
  }

  static bool IsName(std::string_view name) {
    // Who prints: "(TaskRunner pid=123, ip=10.0.0.1)".
    if (name.size() > kNameBytes || name == "pid" || name.ends_with(" pid") || name == "ip") {
      return false;
    }
    for (const char* place : {".py", ".cc", ".cpp", ".cu", ".h", ".c", ".sh", "http", "https"}) {
      if (name.ends_with(place)) return false;
    }
    return true;
  }

  // Prose has such words before its numbers: "in 3 s", "rank 0", "of 12".
  static bool IsBareName(std::string_view name) {
    if (name.size() < 2 || !Is(name.front(), kAlpha)) return false;
    for (const char* word :
         {"in",    "at",   "of",   "to",    "for",  "and",  "or",    "by",
          "is",    "was",  "from", "after", "with", "on",   "than",  "the",
          "over",  "top",  "only", "rank",  "gpu",  "node", "cuda",  "version",
          "since", "took", "used", "got",   "are",  "has",  "every", "reached"}) {
      if (name == word) return false;
    }
    return IsName(name);
  }

  std::optional<double> Value(size_t& at, bool separated) const {
    bool list = false;
    for (bool again = true; again;) {
      again = false;
      if (separated && !list && Char(at) == '[') {
        list = again = true;
        ++at;
        SkipBlanks(at);
      }
      if (separated && (Char(at) == '\'' || Char(at) == '"')) {
        again = true;
        ++at;
      }
    }
    const size_t start = at;
    auto value = NumberAt(line_, at);
    if (!value) return std::nullopt;
    if (!list) Thousands(start, at, *value);
    const char next = Char(at), beyond = Char(at + 1);
    // A clock, a date, an address, the share of a bar, a word that begins with digits.
    if (next == ':' && Is(beyond, kDigit)) return std::nullopt;
    if ((next == '-' || next == '.') && Is(beyond, kInKey)) return std::nullopt;
    if (next == ',' && !list && Is(beyond, kDigit)) return std::nullopt;
    if (next == '%' && beyond == '|') return std::nullopt;
    if (next == '_' || next == '@') return std::nullopt;
    if (!separated && next == '/') return std::nullopt;
    if (Is(next, kAlpha)) {
      size_t end = at;  // a unit: "100ms", "4.27GiB", "12.3k"
      while (end < line_.size() && (Is(line_[end], kAlpha) || line_[end] == '/')) ++end;
      if (end - at > kUnitLetters || Is(Char(end), kDigit) || Char(end) == '_') return std::nullopt;
      // "1.2M" beside "900k" would be no series.
      if (end - at == 1 && std::string_view("kKMBGT").find(next) != std::string_view::npos) {
        return std::nullopt;
      }
      at = end;
    }
    return value;
  }

  // "1,234" of "tps: 1,234".
  void Thousands(size_t start, size_t& at, double& value) const {
    if (at - start > 3 || Char(start) == '0' || !Is(Char(start), kDigit)) return;
    size_t end = at;
    double whole = value;
    while (Char(end) == ',' && Is(Char(end + 1), kDigit) && Is(Char(end + 2), kDigit) &&
           Is(Char(end + 3), kDigit)) {
      double group = 0;
      std::from_chars(line_.data() + end + 1, line_.data() + end + 4, group);
      whole = whole * 1000 + group;
      end += 4;
    }
    if (end == at || Is(Char(end), kDigit)) return;
    at = end;
    value = whole;
  }

  static constexpr size_t kUnitBytes = 24, kUnitLetters = 8, kNameBytes = 200;
  std::string_view line_;
  std::vector<NamedNumber>& into_;
  size_t at_ = 0;
};

}  // namespace

std::optional<int64_t> CountOfOwn(std::string_view line) {
  for (const std::string_view what : {"rollout ", "perf ", "eval "}) {
    size_t at = line.find(what);
    if (at == std::string_view::npos || (at > 0 && line[at - 1] != ' ')) continue;
    at += what.size();
    const size_t start = at;
    while (at < line.size() && Is(line[at], kDigit)) ++at;
    if (at == start || !line.substr(at).starts_with(": {")) continue;
    const auto count = NumberOf(line.substr(start, at - start));
    if (IsCount(count)) return static_cast<int64_t>(*count);
  }
  return std::nullopt;
}

void ReadNamedNumbers(std::string_view line, std::vector<NamedNumber>& into) {
  Scanner(line, into).Run();
}

}  // namespace mpnanny::imports
