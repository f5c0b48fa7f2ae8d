// JSON as people write it into configuration files, with the place of every value: what an edit of
// the text needs that must not touch the rest.
//
// Plain values and free functions; safe from any thread.
#ifndef MPNANNY_SERVER_CLIENT_FILE_JSON_TEXT_H_
#define MPNANNY_SERVER_CLIENT_FILE_JSON_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace mpnanny {

// One value of an object or an array. Positions are bytes of the text.
struct JsonPart {
  enum class Kind { kNone, kObject, kArray, kPlain };
  static constexpr size_t kNowhere = static_cast<size_t>(-1);

  Kind kind = Kind::kNone;
  std::string key;                // of an object's member
  size_t begin = 0;               // of the member: where its key begins
  size_t value = 0;               // where its value begins
  size_t end = 0;                 // behind the value
  size_t comma = kNowhere;        // the comma that follows, if any
  std::vector<JsonPart> parts{};  // of an object or an array

  // The last part of that key, which is the one that readers take; null if there is none.
  const JsonPart* Find(std::string_view name) const;
};

struct JsonText {
  JsonPart root;  // kNone: the text holds nothing but white space and comments
  // The first place that only a lenient reader takes: a comment or a comma behind the last value.
  size_t lenient_at = JsonPart::kNowhere;
};

// Reads JSON with // and /* */ comments, trailing commas and a byte order mark. The error names the
// line.
Result<JsonText> ScanJson(std::string_view text);

// The value of a part of `text`.
Json ValueOf(std::string_view text, const JsonPart& part);

// The number of the line, from 1.
size_t LineOf(std::string_view text, size_t at);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_CLIENT_FILE_JSON_TEXT_H_
