// One job of the worker, in the forked child: what is asked for is done, and said in lines.
//
// A free function. It may be ended at any moment.
#ifndef MPNANNY_ENGINES_WORKER_JOB_H_
#define MPNANNY_ENGINES_WORKER_JOB_H_

#include <functional>

#include "base/json.h"

namespace mpnanny::worker {

// `write` sends a line. Never throws.
void RunJob(const Json& request, const std::function<void(const Json& line)>& write);

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_JOB_H_
