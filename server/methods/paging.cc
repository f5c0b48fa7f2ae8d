#include "server/methods/paging.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "server/protocol/error_codes.h"

namespace mpnanny {
namespace {

// A cursor is "<list>:<items before the page>". Clients treat it as opaque; that it can be read
// helps in a log.
std::optional<size_t> ReadCursor(const std::string& list, const Json& cursor, size_t total) {
  if (!cursor.is_string()) return std::nullopt;
  const std::string& text = cursor.get_ref<const std::string&>();
  if (!text.starts_with(list + ":")) return std::nullopt;
  const std::string_view digits = std::string_view(text).substr(list.size() + 1);
  size_t start = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), start);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  if (start == 0 || start >= total || start % kPageItems != 0) return std::nullopt;
  return start;
}

}  // namespace

std::variant<Json, WireError> Page(const std::string& list, const Json& items, const Json& params) {
  size_t start = 0;
  if (const auto cursor = params.find("cursor"); cursor != params.end() && !cursor->is_null()) {
    const auto read = ReadCursor(list, *cursor, items.size());
    if (!read) {
      return WireError{
          kInvalidParams,
          "Bad cursor: pass the nextCursor of the page before, or none for the first page."};
    }
    start = *read;
  }
  const size_t end = std::min(start + kPageItems, items.size());
  Json body = Json::object();
  body[list] = Json::array();
  for (size_t i = start; i < end; ++i) body[list].push_back(items[i]);
  if (end < items.size()) body["nextCursor"] = list + ":" + std::to_string(end);
  return body;
}

}  // namespace mpnanny
