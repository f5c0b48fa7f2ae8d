// The `run` and `rank` arguments that the tools over runs share: their schema, and the run they
// name.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_RUNS_ASKED_RUN_H_
#define MPNANNY_ENGINES_RUNS_ASKED_RUN_H_

#include <optional>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "engines/call_context.h"
#include "engines/runs/run.h"
#include "engines/runs/schema.h"

namespace mpnanny::runs {

inline Json RunProperty() {
  return {{"type", "string"}, {"minLength", 1}, {"description", kRunArgument}};
}
inline Json RankProperty() {
  return {{"type", "integer"},
          {"minimum", 0},
          {"description", "One rank of a distributed run; without it all ranks are merged."}};
}

// The run that the call names in the property `key`, whole or one rank of it.
inline Result<Source> OpenAskedRun(const Json& arguments, const ToolContext& context,
                                   const char* key = "run") {
  std::optional<int64_t> rank;
  if (const auto given = arguments.find("rank"); given != arguments.end()) {
    rank = given->get<int64_t>();
  }
  return OpenRun(arguments.value(key, ""), context.roots, context.cancel, rank);
}

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_ASKED_RUN_H_
