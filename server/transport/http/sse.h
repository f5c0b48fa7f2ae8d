// Server-sent events as Streamable HTTP uses them: one JSON-RPC message an event.
//
// Free functions; safe from any thread.
#ifndef MPNANNY_SERVER_TRANSPORT_HTTP_SSE_H_
#define MPNANNY_SERVER_TRANSPORT_HTTP_SSE_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mpnanny {

// Where an event stands: which stream of its session, and the how-manieth there (from 1).
struct EventId {
  uint64_t stream = 0;
  uint64_t number = 0;
  bool operator==(const EventId&) const = default;
};

std::string EventIdText(EventId id);
// nullopt if `text` is not what EventIdText() writes.
std::optional<EventId> ParseEventId(std::string_view text);

// Appends an event. `data` must not contain a line break.
void AppendEvent(std::string& to, std::string_view data, std::optional<EventId> id);
// An event that carries nothing but the place to resume from, and after what time to come back.
void AppendPrimingEvent(std::string& to, EventId id, std::chrono::milliseconds retry);
// Keeps proxies from closing a silent stream, and shows whether the client is still there.
inline constexpr std::string_view kKeepAliveComment = ": keep-alive\n\n";

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_TRANSPORT_HTTP_SSE_H_
