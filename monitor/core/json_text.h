// Text as a JSON string, for the details that the monitor writes; the extension carries no JSON
// library. A free function.
#ifndef MPNANNY_MONITOR_CORE_JSON_TEXT_H_
#define MPNANNY_MONITOR_CORE_JSON_TEXT_H_

#include <string>
#include <string_view>

namespace mpnanny {

// With its quotation marks.
inline std::string JsonText(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20) {
      quoted += "\\u00";
      quoted += kHex[byte >> 4];
      quoted += kHex[byte & 15];
      continue;
    }
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_JSON_TEXT_H_
