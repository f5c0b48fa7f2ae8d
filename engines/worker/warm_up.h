// What torch and this program prepare at their first use: each job is a fork that has used nothing,
// so the parent does it once for all of them.
//
// A free function; one thread.
#ifndef MPNANNY_ENGINES_WORKER_WARM_UP_H_
#define MPNANNY_ENGINES_WORKER_WARM_UP_H_

namespace mpnanny::worker {

// Does a job with a model of one layer, and drops its answer; about 60 ms. Errors stay inside: a
// job would meet them again and say so.
void WarmUp();

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_WARM_UP_H_
