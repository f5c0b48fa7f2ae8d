// Changing one table in the text of a TOML file: everything else stays as it was.
//
// Free functions without state; safe from any thread. Nothing is read or written here.
#ifndef MPNANNY_SERVER_CLIENT_FILE_TOML_EDIT_H_
#define MPNANNY_SERVER_CLIENT_FILE_TOML_EDIT_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace mpnanny {

// What a TOML file says, as JSON. The error names the line.
Result<Json> ReadToml(std::string_view text);

// The keys that lead to a table.
using TomlPath = std::vector<std::string>;

// "[a.b]" and a line for each field of `fields`, whose values are texts, lists of texts and objects
// of texts.
std::string TomlTable(const TomlPath& path, const Json& fields, const std::string& line_end);

// `text` in which the table says what `fields` says: a null stands for a field that it must not
// have, and what it has beside stays. A table that is missing is added behind the rest.
// InvalidInput with the line where the table is written in another way than under a [header] of its
// own.
Result<std::string> WithTomlTable(const std::string& text, const TomlPath& path,
                                  const Json& fields);

// `text` without the table and the tables in it; as it is if there is none.
Result<std::string> WithoutTomlTable(const std::string& text, const TomlPath& path);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_CLIENT_FILE_TOML_EDIT_H_
