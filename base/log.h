// Log lines on stderr (stdout belongs to the protocol), by spdlog. Newlines and control characters
// are escaped.
//
// Thread-safe. MPNANNY_LOG=debug|info|warn|error|off (in any case) sets the level; default warn,
// and for other words warn with a line that says so.
#ifndef MPNANNY_BASE_LOG_H_
#define MPNANNY_BASE_LOG_H_

#include <string>
#include <string_view>

namespace mpnanny {

void LogDebug(std::string_view message);
void LogInfo(std::string_view message);
void LogWarning(std::string_view message);

// Logs an error and returns a short id ("e-4f21c0") that stands in the line too: the client gets
// the id, not details.
std::string LogError(std::string_view message);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_LOG_H_
