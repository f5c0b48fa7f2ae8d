// JSON schemas: whether a value fits one, and what is wrong with it in words that a person or a
// model can act on.
//
// Free functions without state (compiled schemas are cached behind a mutex); safe from any thread.
#ifndef MPNANNY_ENGINES_JSON_SCHEMA_H_
#define MPNANNY_ENGINES_JSON_SCHEMA_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace mpnanny {

// Follows "$ref": "#/…" inside `root`; a schema without one is returned as it is. Null if it leads
// nowhere.
const Json* ResolveSchema(const Json& root, const Json& schema);

// True if the schema allows values of this JSON type ("string", "integer", …); a schema without
// "type" allows all.
bool SchemaAllowsType(const Json& schema, std::string_view type);

// Names of the properties that an object's schema has.
std::vector<std::string> PropertiesOf(const Json& schema);

// A value as it is repeated in a message, cut where it is long.
std::string ShownJson(const Json& value);

// Everything wrong with `value`, each problem once, in the order in which the validator came upon
// it. `root_name`: what the value itself is called ("the arguments"). Throws what the library does
// where the schema itself cannot be used.
std::vector<std::string> SchemaProblems(const Json& schema, const Json& value,
                                        const std::string& root_name);

// The same as one sentence.
std::string JoinProblems(std::vector<std::string> problems);

// Checks any value; the error says where and what. `what`: "the answer".
Result<void> ValidateAgainstSchema(const Json& schema, const Json& value, const std::string& what);

}  // namespace mpnanny

#endif  // MPNANNY_ENGINES_JSON_SCHEMA_H_
