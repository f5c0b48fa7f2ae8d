#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/text.h"

namespace mpnanny {
namespace {

spdlog::logger& Logger() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>("mpnanny",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e %n %l: %v");
    made->flush_on(spdlog::level::warn);
    made->set_level(spdlog::level::warn);
    const char* given = std::getenv("MPNANNY_LOG");
    if (!given || !*given) return made;
    const std::string word = LowerCase(given);
    // The library takes any word that it does not know for "off".
    const auto level = spdlog::level::from_str(word);
    if (level != spdlog::level::off || word == "off") {
      made->set_level(level);
    } else {
      made->warn("MPNANNY_LOG={} is no level: debug, info, warn, error or off. Using warn.",
                 EscapeControl(given, 40));
    }
    return made;
  }();
  return *logger;
}

}  // namespace

void LogDebug(std::string_view message) { Logger().debug("{}", EscapeControl(message)); }
void LogInfo(std::string_view message) { Logger().info("{}", EscapeControl(message)); }
void LogWarning(std::string_view message) { Logger().warn("{}", EscapeControl(message)); }

std::string LogError(std::string_view message) {
  static std::atomic<unsigned> count{0};
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  char id[20];
  std::snprintf(id, sizeof(id), "e-%06x", (static_cast<unsigned>(now >> 10) + count++) & 0xFFFFFFu);
  Logger().error("[{}] {}", id, EscapeControl(message));
  return id;
}

}  // namespace mpnanny
