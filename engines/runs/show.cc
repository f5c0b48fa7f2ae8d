#include "engines/runs/show.h"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>

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
  using std::chrono::floor;
  const std::chrono::sys_seconds at(std::chrono::seconds(static_cast<int64_t>(unix_seconds)));
  const auto day = floor<std::chrono::days>(at);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(at - day);
  char text[40];
  std::snprintf(text, sizeof(text), "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
                static_cast<int>(time.seconds().count()));
  return text;
}

std::string Name(std::string_view raw) { return EscapeControl(raw, kShownNameBytes); }

std::string Count(int64_t n, std::string_view noun, std::string_view plural) {
  const std::string many = plural.empty() ? std::string(noun) + "s" : std::string(plural);
  return std::to_string(n) + " " + (n == 1 ? std::string(noun) : many);
}

}  // namespace mpnanny::runs
