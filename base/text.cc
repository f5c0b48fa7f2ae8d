#include "base/text.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <optional>

namespace mpnanny {
namespace {

// Characters that change how text around them is shown without being seen themselves.
bool IsInvisible(uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || (c >= 0x200B && c <= 0x200F) ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF ||
         c == 0x00AD || c == 0x061C || (c >= 0xE0000 && c <= 0xE007F);
}

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

}  // namespace

std::optional<uint32_t> DecodeUtf8(std::string_view s, size_t& i) {
  const auto byte = [&](size_t k) { return static_cast<uint8_t>(s[k]); };
  const uint8_t first = byte(i);
  if (first < 0x80) {
    ++i;
    return first;
  }
  const int length = first >= 0xF0 && first <= 0xF4 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 0;
  if (length == 0 || first > 0xF4 || i + static_cast<size_t>(length) > s.size()) {
    ++i;
    return std::nullopt;
  }
  uint32_t code = first & (0x7Fu >> length);
  for (int k = 1; k < length; ++k) {
    if ((byte(i + static_cast<size_t>(k)) & 0xC0) != 0x80) {
      ++i;
      return std::nullopt;
    }
    code = code << 6 | (byte(i + static_cast<size_t>(k)) & 0x3Fu);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kSmallest[length] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
    ++i;
    return std::nullopt;
  }
  i += static_cast<size_t>(length);
  return code;
}

std::string EscapeControl(std::string_view text, size_t max_bytes, bool keep_newlines) {
  std::string out;
  char escaped[16];
  for (size_t i = 0; i < text.size();) {
    const size_t start = i;
    const auto code = DecodeUtf8(text, i);
    std::string piece;
    if (!code) {
      std::snprintf(escaped, sizeof(escaped), "\\x%02x", static_cast<uint8_t>(text[start]));
      piece = escaped;
    } else if (keep_newlines && (*code == '\n' || *code == '\t')) {
      piece = static_cast<char>(*code);
    } else if (*code == '\n') {
      piece = "\\n";
    } else if (IsInvisible(*code)) {
      std::snprintf(escaped, sizeof(escaped), "\\u{%x}", *code);
      piece = escaped;
    } else {
      piece = text.substr(start, i - start);
    }
    if (out.size() + piece.size() > max_bytes) return out + "…";
    out += piece;
  }
  return out;
}

bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    // Most text is ASCII: eight bytes at a time.
    uint64_t eight = 0;
    if (i + sizeof(eight) <= text.size()) {
      std::memcpy(&eight, text.data() + i, sizeof(eight));
      if ((eight & 0x8080808080808080u) == 0) {
        i += sizeof(eight);
        continue;
      }
    }
    if (!DecodeUtf8(text, i)) return false;
  }
  return true;
}

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

size_t CountCodePoints(std::string_view utf8) {
  return static_cast<size_t>(std::count_if(
      utf8.begin(), utf8.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

std::vector<std::string> NearestNames(std::string_view word,
                                      const std::vector<std::string>& candidates, size_t most) {
  word = word.substr(0, 200);  // edit distance is quadratic; nobody means a longer name
  std::vector<std::pair<size_t, std::string>> ranked;
  for (const std::string& candidate : candidates) {
    size_t distance = EditDistance(word, candidate);
    const bool part = !word.empty() && candidate.find(word) != std::string::npos;
    if (part) distance = std::min<size_t>(distance, 1);
    if (distance <= std::max<size_t>(2, word.size() / 3)) ranked.emplace_back(distance, candidate);
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(most, ranked.size()); ++i) names.push_back(ranked[i].second);
  return names;
}

std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates) {
  std::vector<std::string> near = NearestNames(word, candidates);
  if (near.empty()) return "";
  for (std::string& name : near) name = "'" + name + "'";
  return "Did you mean " + Join(near, " or ") + "?";
}

Error NoSuchName(std::string_view what, std::string_view name,
                 const std::vector<std::string>& known) {
  constexpr size_t kFew = 40;
  std::string hint = DidYouMean(name, known);
  if (hint.empty() && !known.empty() && known.size() <= kFew) {
    hint = "There are " + Join(known, ", ") + ".";
  }
  return NotFound("There is no " + std::string(what) + " '" + EscapeControl(name, 100) + "'.",
                  hint);
}

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string joined;
  for (const std::string& part : parts) {
    if (&part != &parts.front()) joined += separator;
    joined += part;
  }
  return joined;
}

std::string ShellQuote(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_";
  // In front, '=' means something to zsh.
  if (!word.empty() && word.front() != '=' &&
      word.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(word);
  }
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";  // ends the quotes, one escaped quote, begins them again
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string ShellCommand(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + ShellQuote(word);
  return line;
}

bool MatchesGlob(std::string_view pattern, std::string_view name) {
  size_t p = 0;
  size_t n = 0;
  size_t star = std::string_view::npos;
  size_t star_name = 0;
  while (n < name.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || (pattern[p] != '*' && pattern[p] == name[n]))) {
      ++p;
      ++n;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_name = n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++star_name;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace mpnanny
