#include "tools/runs/show.h"

#include <cmath>
#include <cstdio>
#include <ctime>

#include "base/text.h"

namespace mpnanny::runs {

std::string Number(double value, int digits) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char text[40];
  if (value == std::floor(value) && std::fabs(value) < 1e9) {
    std::snprintf(text, sizeof(text), "%.0f", value);
  } else {
    std::snprintf(text, sizeof(text), "%.*g", digits, value);
  }
  return text;
}

std::string Number(const std::optional<double>& value, int digits) {
  return value ? Number(*value, digits) : "not known";
}

std::string Time(double unix_seconds) {
  if (!(unix_seconds > 0 && unix_seconds < 2.5e11)) return "";
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm utc{};
  if (!gmtime_r(&seconds, &utc)) return "";
  char text[40];
  const size_t length = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return {text, length};
}

std::string Name(std::string_view raw) { return EscapeControl(raw, kShownNameBytes); }

std::string Count(int64_t n, std::string_view noun, std::string_view plural) {
  const std::string many = plural.empty() ? std::string(noun) + "s" : std::string(plural);
  return std::to_string(n) + " " + (n == 1 ? std::string(noun) : many);
}

}  // namespace mpnanny::runs
