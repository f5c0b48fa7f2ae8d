// What mpnanny and mpnanny-worker say to each other: JSON objects, one a line, over the worker's
// stdin and stdout. Compiled into both sides; no torch header here.
//
//   -> {"op": "hello", "protocol": 3}
//   <- {"protocol": 3, "torch": "2.13.0", "cpu_capability": "AVX512", "threads": 1}
//   -> {"op": "job", "seconds": 60, "memory_mb": 8192, "writable": DIR, "request": {…},
//       "allow_weaker": false}
//   <-  {"progress": {"done": 0.4, "what": "in bf16"}}                     any number of them
//   <-  {"answer": {…}}  or  {"error": {"kind", "message", "try"}}
//   <- {"end": {"exit_code": 0, "exceeded": "", "missing": [], "refused": false}}
//                                                                          always, and last
//   <- {"error": {"kind": "InvalidInput", "message": "…"}}                 to what is not
//   understood
//
// A job runs in a forked child with limits (base/confinement.h); whatever becomes of that, the
// worker goes on. The lines of a job are those of mpnanny-sandbox: what begins with a space comes
// from the process that runs the model, the rest from those that watch over it. A request:
//
//   {"kind": "diff", "model", "input": […], "seed", "dtype", "policy", "rel_warn", "rel_error",
//   "root"}
//   {"kind": "capture", "model", "input", "seed", "output": FILE}          what each module gives
//   {"kind": "time", "model", "input", "seed", "repeats"}
//
// The first line must be hello; a worker of another protocol number is not used.
#ifndef MPNANNY_ENGINES_WORKER_PROTOCOL_H_
#define MPNANNY_ENGINES_WORKER_PROTOCOL_H_

namespace mpnanny::worker {

inline constexpr int kProtocol = 3;

// That a job may have at a time; a model starts none.
inline constexpr int kProcesses = 4;

// Set by whoever starts the worker; without it the program says what it is and ends.
inline constexpr char kStartedByUs[] = "MPNANNY_WORKER";

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_PROTOCOL_H_
