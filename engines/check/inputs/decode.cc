#include "engines/check/inputs/decode.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/text.h"
#include "base/text_encoding.h"

namespace mpnanny::check {
namespace {

// More NULs than this, and more than one in so many bytes: it is no text. Noise has one in 256.
constexpr size_t kStrayNuls = 2;
constexpr size_t kBytesPerNul = 1000;

struct Mark {
  std::string_view bytes;
  const char* encoding;
};
// The longer ones first: UTF-32's begins with UTF-16's.
constexpr std::array<Mark, 4> kMarks = {{{std::string_view("\xFF\xFE\0\0", 4), "UTF-32LE"},
                                         {std::string_view("\0\0\xFE\xFF", 4), "UTF-32BE"},
                                         {"\xFF\xFE", "UTF-16LE"},
                                         {"\xFE\xFF", "UTF-16BE"}}};

// Bytes that are no UTF-8 become '?', one for one.
void MakeUtf8(std::string& text) {
  size_t begin = 0;
  while (begin < text.size()) {
    // Line by line: almost all lines of such a file are plain ASCII.
    size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    if (!IsUtf8(std::string_view(text).substr(begin, end - begin))) {
      for (size_t i = begin; i < end; ++i) {
        if ((static_cast<unsigned char>(text[i]) & 0x80) != 0) text[i] = '?';
      }
    }
    begin = end + 1;
  }
}

// The name in "# -*- coding: NAME -*-" in one of the first two lines; empty if there is none.
std::string DeclaredEncoding(std::string_view text) {
  for (int number = 0; number < 2; ++number) {
    const size_t end = text.find_first_of("\r\n");
    std::string_view line = text.substr(0, end);
    const size_t first = line.find_first_not_of(" \t\f");
    if (first != std::string_view::npos && line[first] != '#') return "";
    for (size_t at = line.find("coding"); at != std::string_view::npos;
         at = line.find("coding", at + 1)) {
      size_t name = at + 6;
      if (name >= line.size() || (line[name] != ':' && line[name] != '=')) continue;
      ++name;
      while (name < line.size() && (line[name] == ' ' || line[name] == '\t')) ++name;
      std::string found;
      for (; name < line.size() && (std::isalnum(static_cast<unsigned char>(line[name])) != 0 ||
                                    line[name] == '-' || line[name] == '_' || line[name] == '.');
           ++name) {
        found += line[name];
      }
      if (!found.empty()) return found;
    }
    if (end == std::string_view::npos) return "";
    text.remove_prefix(text.compare(end, 2, "\r\n") == 0 ? end + 2 : end + 1);
  }
  return "";
}

// Python's name of an encoding as the system's library knows it.
std::string SystemName(std::string name) {
  for (char& c : name)
    c = c == '_' ? '-' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (name == "LATIN-1" || name == "ISO-LATIN-1" || name == "LATIN" || name == "L1")
    return "ISO-8859-1";
  if (name.starts_with("LATIN-")) return "LATIN" + name.substr(6);
  if (name == "MAC-ROMAN") return "MACINTOSH";
  return name;
}

}  // namespace

void EndLines(std::string& text) {
  for (size_t at = text.find('\r'); at != std::string::npos; at = text.find('\r', at + 1)) {
    if (at + 1 == text.size() || text[at + 1] != '\n') text[at] = '\n';
  }
}

bool HasWideMark(std::string_view bytes) {
  return std::any_of(kMarks.begin(), kMarks.end(),
                     [&](const Mark& one) { return bytes.starts_with(one.bytes); });
}

std::optional<Decoded> DecodeSource(std::string_view bytes) {
  Decoded decoded;
  const auto mark = std::find_if(kMarks.begin(), kMarks.end(),
                                 [&](const Mark& one) { return bytes.starts_with(one.bytes); });
  if (mark != kMarks.end()) {
    auto text = ToUtf8(bytes.substr(mark->bytes.size()), mark->encoding);
    if (!text) return std::nullopt;
    decoded.text = *std::move(text);
    decoded.note = std::string("it is ") + mark->encoding + ", which Python does not run.";
  } else {
    if (bytes.starts_with("\xEF\xBB\xBF")) bytes.remove_prefix(3);
    decoded.text = std::string(bytes);
  }
  // A crash may leave a file padded with them.
  const size_t end = decoded.text.find_last_not_of('\0') + 1;
  const bool padded = end < decoded.text.size();
  decoded.text.resize(end);
  const auto nuls = static_cast<size_t>(std::count(decoded.text.begin(), decoded.text.end(), '\0'));
  if (nuls > kStrayNuls && nuls * kBytesPerNul > end) return std::nullopt;
  if (nuls > 0 || padded) {
    std::replace(decoded.text.begin(), decoded.text.end(), '\0', ' ');
    decoded.note = "it holds zero bytes, which count as spaces here; Python does not run it.";
  }
  if (!IsUtf8(decoded.text)) {
    const std::string name = DeclaredEncoding(decoded.text);
    auto text = ToUtf8(decoded.text, SystemName(name));
    if (text) {
      decoded.text = *std::move(text);
    } else {
      MakeUtf8(decoded.text);
      decoded.note =
          name.empty() ? "it is not UTF-8; characters that could not be read count as '?'."
                       : "it is not in the encoding that it declares (" + EscapeControl(name, 40) +
                             "); characters that could not be read count as '?'.";
    }
  }
  EndLines(decoded.text);
  return decoded;
}

}  // namespace mpnanny::check
