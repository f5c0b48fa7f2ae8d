// Changing one value in the text of a JSON file: everything else stays as it was, comments, order,
// indentation and line ends included, and what is new is written as its neighbours are.
//
// Free functions without state; safe from any thread. Nothing is read or written here.
#ifndef MPNANNY_SERVER_CLIENT_FILE_JSON_EDIT_H_
#define MPNANNY_SERVER_CLIENT_FILE_JSON_EDIT_H_

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace mpnanny {

// The keys that lead to a value from the outermost object.
using JsonPath = std::vector<std::string>;

// `text` with `value` at `path`: replaced where there is one, else added as the last of its object;
// objects on the way are made. A text without any value becomes one object. InvalidInput, with the
// line, where something on the way is no object.
Result<std::string> WithJsonValue(const std::string& text, const JsonPath& path, const Json& value);

// `text` without what is at `path`; as it is if there is nothing.
Result<std::string> WithoutJsonValue(const std::string& text, const JsonPath& path);

// `text` with `value` as the last element of the array at `path`, which is made if it is missing.
Result<std::string> WithJsonElement(const std::string& text, const JsonPath& path,
                                    const Json& value);

// `text` without that element of the array at `path`.
Result<std::string> WithoutJsonElement(const std::string& text, const JsonPath& path, size_t index);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_CLIENT_FILE_JSON_EDIT_H_
