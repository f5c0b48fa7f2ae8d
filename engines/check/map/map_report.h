// The map of a project as an answer.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_CHECK_MAP_MAP_REPORT_H_
#define MPNANNY_ENGINES_CHECK_MAP_MAP_REPORT_H_

#include <cstddef>
#include <string>

#include "engines/call_context.h"
#include "engines/check/engine.h"

namespace mpnanny::check {

inline constexpr size_t kMapBytes = 6000;

// `map` of the structured answer: for each part a list of {"at": "path:line", "what"}, the files
// that train first, and how many are left out. Parts share the room: none is crowded out by
// another.
ToolOutput ShowMap(const Report& report, size_t answer_bytes);

// The same answer as text.
std::string MapText(const Json& structured);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_MAP_MAP_REPORT_H_
