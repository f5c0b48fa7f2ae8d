// Python's calls that tell what a shadow step found. Arguments by place or by name; None for every
// number and text that is not known. Used under Python's lock.
#ifndef MPNANNY_MONITOR_BINDINGS_SHADOW_H_
#define MPNANNY_MONITOR_BINDINGS_SHADOW_H_

#include <Python.h>

namespace mpnanny {

// shadow_step(step, why, seconds, plain_seconds, operators, compared, restarted, memory,
// detail_json)
PyObject* ShadowStep(PyObject* object, PyObject* args, PyObject* kwargs);

// shadow_finding(finding_id, step, kind, severity, phase, layer, operator, source, dtype, shape,
// share, magnitude, error_in, error_out, precision, reach_json, cure_json, detail_json) -> id; 0:
// left out. finding_id 0: a new one.
PyObject* ShadowFinding(PyObject* object, PyObject* args, PyObject* kwargs);

// shadow_profile(step, layer, phase, dtype, operators, error, amplification, absmax, rms, fp16,
// bf16, e4m3, e5m2, fp16_overflow, fp16_underflow)
PyObject* ShadowProfile(PyObject* object, PyObject* args, PyObject* kwargs);

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_BINDINGS_SHADOW_H_
