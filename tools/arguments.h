// Arguments as models and people really send them, brought into the shape that a tool's schema asks
// for.
//
// Free functions without state; safe from any thread.
#ifndef MPNANNY_TOOLS_ARGUMENTS_H_
#define MPNANNY_TOOLS_ARGUMENTS_H_

#include "base/json.h"

namespace mpnanny {

// Rewrites `value` where it does not fit the schema but its meaning is plain, and fills in the
// schema's defaults:
//   "42" -> 42 and 3.0 -> 3 for an integer, "0.5" -> 0.5 for a number, "true" -> true for a
//   boolean, 7 -> "7" for a string, "ERROR" -> "error" where the enumeration has that word in
//   another case, one value -> a list of it, the text of a JSON list or object -> what it says,
//   null for a property that takes none -> as if it had not been given.
// What is left alone is for the validator to refuse.
void NormaliseArguments(const Json& schema, Json& value);

}  // namespace mpnanny

#endif  // MPNANNY_TOOLS_ARGUMENTS_H_
