// JSON as mpnanny uses it: key order is kept (the most important field comes first for the reader),
// input is bounded, numbers that are not finite become strings.
//
// Free functions without state; safe from any thread.
#ifndef MPNANNY_BASE_JSON_H_
#define MPNANNY_BASE_JSON_H_

#include <cstddef>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace mpnanny {

using Json = nlohmann::ordered_json;

// Deepest nesting of objects and arrays that ParseJson takes. nlohmann's serialiser recurses, so
// depth is bounded before a tree is built.
inline constexpr size_t kMaxJsonDepth = 64;

// What becomes of an object that has one key twice. Readers differ in which value they take, so
// whoever relies on others having read the same text refuses it.
enum class DuplicateKeys { kTakeLast, kRefuse };

// Parses UTF-8 JSON in time linear in its length. The error says at which byte and what was
// expected there.
Result<Json> ParseJson(std::string_view text, size_t max_depth = kMaxJsonDepth,
                       DuplicateKeys duplicates = DuplicateKeys::kTakeLast);

// The value at a path of keys from the outermost object; null where there is none. As long-lived as
// `json`.
const Json& ValueAt(const Json& json, std::initializer_list<const char*> keys);
// What is not kept anywhere would be gone before it is looked at.
const Json& ValueAt(Json&& json, std::initializer_list<const char*> keys) = delete;

// Serialises on one line; bytes that are not UTF-8 become U+FFFD instead of an exception.
std::string DumpJson(const Json& json);
std::string DumpJsonPretty(const Json& json);

// A double for an answer: JSON has no NaN and no infinity, so those become "nan", "inf", "-inf"; an
// absent value is null. Finite values are rounded to `digits` significant decimal digits: answers
// are read by a model, not computed on.
Json JsonNumber(double value, int digits = 6);
Json JsonNumber(std::optional<double> value, int digits = 6);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_JSON_H_
