// How serious a log message for the client is (RFC 5424's words, as MCP has them).
//
// Plain values and free functions.
#ifndef MPNANNY_SERVER_PROTOCOL_LOG_LEVEL_H_
#define MPNANNY_SERVER_PROTOCOL_LOG_LEVEL_H_

#include <optional>
#include <string>
#include <string_view>

namespace mpnanny {

// From harmless to serious.
enum class LogLevel { kDebug, kInfo, kNotice, kWarning, kError, kCritical, kAlert, kEmergency };

std::string_view LogLevelName(LogLevel level);                    // "warning"
std::optional<LogLevel> LogLevelFromName(std::string_view name);  // nullopt for other words
std::string LogLevelNames();  // for messages: "debug, info, …"

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_PROTOCOL_LOG_LEVEL_H_
