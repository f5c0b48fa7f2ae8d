#include "server/transport/http/sse.h"

#include <charconv>

namespace mpnanny {
namespace {

// The number that `text` is, written without sign and leading zeros.
std::optional<uint64_t> WholeNumber(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  if (text.size() > 1 && text.front() == '0') return std::nullopt;
  return value;
}

}  // namespace

std::string EventIdText(EventId id) {
  return std::to_string(id.stream) + "-" + std::to_string(id.number);
}

std::optional<EventId> ParseEventId(std::string_view text) {
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto stream = WholeNumber(text.substr(0, dash));
  const auto number = WholeNumber(text.substr(dash + 1));
  if (!stream || !number) return std::nullopt;
  return EventId{*stream, *number};
}

void AppendEvent(std::string& to, std::string_view data, std::optional<EventId> id) {
  if (id) to.append("id: ").append(EventIdText(*id)).append("\n");
  to.append("data: ").append(data).append("\n\n");
}

void AppendPrimingEvent(std::string& to, EventId id, std::chrono::milliseconds retry) {
  to.append("id: ").append(EventIdText(id));
  to.append("\nretry: ").append(std::to_string(retry.count())).append("\ndata: \n\n");
}

}  // namespace mpnanny
