// mpnanny-worker, as the server asks it: started at the first job, kept for the next, replaced when
// it has ended.
//
// A free function; safe from any thread. Two jobs at a time are two workers, one of which is kept.
#ifndef MPNANNY_ENGINES_EXPORTED_WORKER_H_
#define MPNANNY_ENGINES_EXPORTED_WORKER_H_

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "engines/call_context.h"
#include "engines/exported/model_file.h"

namespace mpnanny::exported {

// The answer to the question, which fits `schema`. `folder`: that it may write in, of this job
// alone. Unavailable where there is no worker or none that fits; what the job says else.
Result<Json> AskWorker(const Question& question, const std::string& folder, const Json& schema,
                       const ToolContext& context);

// What the worker beside the program says of itself: {"protocol", "torch", "cpu_capability"}.
Result<Json> GreetWorker(const std::string& program);

// The command that makes the worker of this program.
inline constexpr char kBuildIt[] =
    "Models that have left Python need mpnanny-worker, which is linked with one version of torch: "
    "./scripts/build in the sources makes it for the torch of its .venv. Models in Python "
    "(model.py:build) need none.";

}  // namespace mpnanny::exported

#endif  // MPNANNY_ENGINES_EXPORTED_WORKER_H_
