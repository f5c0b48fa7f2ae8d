#include "base/run_handle.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace mpnanny {

RunHandle ParseRunHandle(std::string_view text) {
  const size_t hash = text.rfind('#');
  if (hash != std::string_view::npos && hash + 1 < text.size()) {
    const std::string_view digits = text.substr(hash + 1);
    int64_t id = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), id);
    if (error == std::errc() && end == digits.data() + digits.size() && digits[0] != '-') {
      return {std::string(text.substr(0, hash)), id};
    }
  }
  return {std::string(text), std::nullopt};
}

std::string FormatRunHandle(const RunHandle& handle) {
  return handle.run_id ? handle.path + "#" + std::to_string(*handle.run_id) : handle.path;
}

std::string PercentEncode(std::string_view text) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x80 && std::isalnum(byte)) || c == '-' || c == '.' || c == '_' || c == '~') {
      out += c;
    } else {
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

std::string PercentDecode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;  // for a signed one from_chars would take "-1" too
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16).ptr ==
            text.data() + i + 3) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace mpnanny
