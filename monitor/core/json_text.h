// JSON for the details that the monitor writes; the extension carries no JSON library. Plain values
// and free functions.
#ifndef MPNANNY_MONITOR_CORE_JSON_TEXT_H_
#define MPNANNY_MONITOR_CORE_JSON_TEXT_H_

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <utility>

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

inline std::string JsonList(std::span<const int64_t> values) {
  std::string list = "[";
  for (const int64_t value : values) {
    if (list.size() > 1) list += ',';
    list += std::to_string(value);
  }
  return list + ']';
}

// An object, member by member.
class JsonObject {
 public:
  JsonObject& Text(std::string_view key, std::string_view value) {
    return Json(key, JsonText(value));
  }
  JsonObject& Int(std::string_view key, int64_t value) { return Json(key, std::to_string(value)); }
  // Left out if it is not finite.
  JsonObject& Number(std::string_view key, double value) {
    if (!std::isfinite(value)) return *this;
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", value);
    return Json(key, text);
  }
  JsonObject& Json(std::string_view key, std::string_view json) {
    if (!members_.empty()) members_ += ',';
    members_ += JsonText(key);
    members_ += ':';
    members_ += json;
    return *this;
  }
  // The members of another object behind its own; "" and "{}" add none.
  JsonObject& Members(std::string_view object) {
    if (object.size() <= 2) return *this;
    if (!members_.empty()) members_ += ',';
    members_ += object.substr(1, object.size() - 2);
    return *this;
  }
  std::string Take() { return '{' + std::exchange(members_, {}) + '}'; }

 private:
  std::string members_;
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_JSON_TEXT_H_
