#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "base/text.h"

namespace mpnanny {
namespace {

spdlog::logger& Logger() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>("mpnanny",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e %n %l: %v");
    const char* level = std::getenv("MPNANNY_LOG");
    made->set_level(level ? spdlog::level::from_str(level) : spdlog::level::warn);
    made->flush_on(spdlog::level::warn);
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
