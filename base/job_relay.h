// Passes on what a job says, that may be hostile, and what its supervisor says of it, so that a
// reader can tell the two apart.
//
// The job, and whatever it starts, writes to a pipe of its own. The supervisor (base/confinement.h)
// says how it has ended on another one, which the job does not have. Both are read here, by a
// process that runs none of the job and alone has `out`: nothing that the job writes can look like
// the supervisor's word, and nothing comes after that. Linux only. One thread.
#ifndef MPNANNY_BASE_JOB_RELAY_H_
#define MPNANNY_BASE_JOB_RELAY_H_

#include <functional>
#include <string>

#include "base/json.h"

namespace mpnanny {

// In front of each line of the job's on `out`; the supervisor's begin with '{'.
inline constexpr char kJobMark = ' ';

enum class StandardStreams {
  kOfTheJob,  // the job's requests come on standard input; it writes to what it has as output
  kOurs,      // it writes to `told` only
};

// Runs `supervise(told)` in a forked child: for what a process can do once only, as being a
// supervisor. What is written to `told` goes to `out`, marked, as it comes; then, on a line of its
// own, {"end": what `supervise` returned}, or {"end": {"error": …}} if the child did not come to
// that. False if nobody reads `out` any more.
bool RelayJob(int out, StandardStreams streams, const std::function<Json(int told)>& supervise);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_JOB_RELAY_H_
