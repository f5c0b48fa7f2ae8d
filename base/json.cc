#include "base/json.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/text.h"

namespace mpnanny {
namespace {

constexpr size_t kMaxReason = 300;  // bytes of the library's text that are shown

// Greatest nesting depth of `text`, found without building a tree. Brackets inside strings do not
// count.
size_t NestingDepth(std::string_view text) {
  size_t depth = 0;
  size_t deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

std::string Dump(const Json& json, int indent) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace

Result<Json> ParseJson(std::string_view text, size_t max_depth) {
  if (const size_t depth = NestingDepth(text); depth > max_depth) {
    return InvalidInput("JSON nested " + std::to_string(depth) + " levels deep; the limit is " +
                        std::to_string(max_depth) + ".");
  }
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::parse_error& e) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: …": the tag in front means
    // nothing to a reader.
    std::string what = e.what();
    if (const size_t end = what.find("] "); end != std::string::npos) what.erase(0, end + 2);
    // The library quotes the last token, which may be megabytes of anything.
    return InvalidInput("not valid JSON: " + EscapeControl(what, kMaxReason) + ".");
  } catch (const Json::exception& e) {
    return InvalidInput("not valid JSON: " + EscapeControl(e.what(), kMaxReason) + ".");
  }
}

std::string DumpJson(const Json& json) { return Dump(json, -1); }
std::string DumpJsonPretty(const Json& json) { return Dump(json, 2); }

Json JsonNumber(double value, int digits) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (value == std::floor(value) && std::fabs(value) < 1e15) return static_cast<int64_t>(value);
  char text[40];
  std::snprintf(text, sizeof(text), "%.*g", digits, value);
  return std::strtod(text, nullptr);
}

Json JsonNumber(std::optional<double> value, int digits) {
  return value ? JsonNumber(*value, digits) : Json(nullptr);
}

}  // namespace mpnanny
