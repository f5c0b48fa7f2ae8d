#include "server/protocol/log_level.h"

#include <array>

namespace mpnanny {
namespace {

constexpr std::array<std::string_view, 8> kLevelNames = {
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"};

}  // namespace

std::string_view LogLevelName(LogLevel level) { return kLevelNames[static_cast<size_t>(level)]; }

std::optional<LogLevel> LogLevelFromName(std::string_view name) {
  for (size_t i = 0; i < kLevelNames.size(); ++i) {
    if (kLevelNames[i] == name) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

std::string LogLevelNames() {
  std::string names;
  for (const std::string_view name : kLevelNames) {
    if (!names.empty()) names += ", ";
    names += name;
  }
  return names;
}

}  // namespace mpnanny
