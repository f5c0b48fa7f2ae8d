// Python's calls that compare the log-probabilities of trainer and rollout engine, and raise an
// alert where they are far apart.
//
// Python's calling conventions; used under Python's lock.
#ifndef MPNANNY_MONITOR_BINDINGS_LOGPROBS_H_
#define MPNANNY_MONITOR_BINDINGS_LOGPROBS_H_

#include <Python.h>

namespace mpnanny {

// logprob_mismatch(tensor, rows, length, given) -> (json, [json of a grouping]) | None
// `tensor`: FP64, contiguous, of the CPU, as long as its rows: trainer, rollout, then those of
// mask, position, document, token and "other experts" whose bit of `given` is set (1, 2, 4, 8, 16).
PyObject* LogprobMismatchOf(PyObject* module, PyObject* args);

// recorder.logprobs(step, tokens, not_finite, k3, beyond): raises LOGPROB_MISMATCH beyond its
// bounds.
PyObject* Logprobs(PyObject* recorder, PyObject* args);

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_BINDINGS_LOGPROBS_H_
