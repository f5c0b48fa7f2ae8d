// What `mpnanny diagnose --watch` asks every few seconds of a run that goes on, and when its
// diagnosis is worth showing again.
//
// Free functions; each call opens the run anew, read-only.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_WATCH_H_
#define MPNANNY_ENGINES_DIAGNOSIS_WATCH_H_

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "engines/call_context.h"

namespace mpnanny::diagnosis {

// `arguments`: diagnose_run's, with `run`.
Result<WatchedState> StateOfRun(const Json& arguments, const ToolContext& context);

// The verdict and the first hypothesis of a diagnosis.
std::string Essence(const Json& diagnosis);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_WATCH_H_
