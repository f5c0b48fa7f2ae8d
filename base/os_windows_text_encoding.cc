#include <windows.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/os_windows_text.h"
#include "base/text.h"
#include "base/text_encoding.h"

namespace mpnanny {
namespace {

struct Named {
  std::string_view name;
  UINT page;
};
// Names as iconv knows them, and Python's that differ from these.
constexpr Named kPages[] = {
    {"US-ASCII", 20127},    {"ASCII", 20127},   {"LATIN1", 28591},    {"LATIN9", 28605},
    {"KOI8-R", 20866},      {"KOI8-U", 21866},  {"MACINTOSH", 10000}, {"GBK", 936},
    {"GB2312", 936},        {"EUC-CN", 936},    {"GB18030", 54936},   {"BIG5", 950},
    {"SHIFT-JIS", 932},     {"SHIFT_JIS", 932}, {"SJIS", 932},        {"EUC-JP", 20932},
    {"ISO-2022-JP", 50220}, {"EUC-KR", 51949},  {"JOHAB", 1361},      {"TIS-620", 874},
    {"UTF-8", CP_UTF8},
};

// The code page of that name; 0 if there is none.
UINT PageOf(std::string_view name) {
  for (const Named& each : kPages) {
    if (each.name == name) return each.page;
  }
  for (const auto& [prefix, base] : {std::pair<std::string_view, UINT>{"ISO-8859-", 28590},
                                     {"ISO8859-", 28590},
                                     {"WINDOWS-", 0},
                                     {"CP", 0}}) {
    UINT number = 0;
    const char* const end = name.data() + name.size();
    if (name.starts_with(prefix) &&
        std::from_chars(name.data() + prefix.size(), end, number).ptr == end && number > 0) {
      return base + number;
    }
  }
  return 0;
}

std::optional<std::string> FromUtf16(std::string_view bytes, bool big) {
  if (bytes.size() % 2 != 0) return std::nullopt;
  std::wstring wide(bytes.size() / 2, L'\0');
  for (size_t i = 0; i < wide.size(); ++i) {
    const auto first = static_cast<unsigned char>(bytes[2 * i]);
    const auto second = static_cast<unsigned char>(bytes[2 * i + 1]);
    wide[i] = static_cast<wchar_t>(big ? first << 8 | second : second << 8 | first);
  }
  return FromWide(wide);
}

std::optional<std::string> FromUtf32(std::string_view bytes, bool big) {
  if (bytes.size() % 4 != 0) return std::nullopt;
  std::wstring wide;
  for (size_t i = 0; i < bytes.size(); i += 4) {
    uint32_t point = 0;
    for (size_t j = 0; j < 4; ++j) {
      point |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[i + j]))
               << 8 * (big ? 3 - j : j);
    }
    if (point > 0x10FFFF) return std::nullopt;
    if (point < 0x10000) {
      wide += static_cast<wchar_t>(point);
    } else {
      wide += static_cast<wchar_t>(0xD7C0 + (point >> 10));
      wide += static_cast<wchar_t>(0xDC00 + (point & 0x3FF));
    }
  }
  return FromWide(wide);
}

}  // namespace

Result<std::string> ToUtf8(std::string_view bytes, const std::string& encoding) {
  std::optional<std::string> text;
  if (encoding == "UTF-16LE" || encoding == "UTF-16BE") {
    text = FromUtf16(bytes, encoding.ends_with("BE"));
  } else if (encoding == "UTF-32LE" || encoding == "UTF-32BE") {
    text = FromUtf32(bytes, encoding.ends_with("BE"));
  } else {
    const UINT page = PageOf(encoding);
    if (page == 0 || !IsValidCodePage(page)) {
      return InvalidInput("The encoding '" + EscapeControl(encoding, 60) + "' is not known here.");
    }
    if (bytes.empty()) return std::string();
    // This one knows no flag that refuses what is wrong.
    const DWORD strict = page == 50220 ? 0 : MB_ERR_INVALID_CHARS;
    const int size = static_cast<int>(std::min<size_t>(bytes.size(), INT_MAX));
    const int units = MultiByteToWideChar(page, strict, bytes.data(), size, nullptr, 0);
    if (units > 0) {
      std::wstring wide(static_cast<size_t>(units), L'\0');
      MultiByteToWideChar(page, strict, bytes.data(), size, wide.data(), units);
      text = FromWide(wide);
    }
  }
  if (!text) return InvalidInput("The text is not in " + EscapeControl(encoding, 60) + ".");
  return *std::move(text);
}

}  // namespace mpnanny
