// The core's Recorder as a Python type, on CPython's limited API. Translation only: arguments to
// plain values, results to objects. Used under Python's lock.
#ifndef MPNANNY_MONITOR_BINDINGS_RECORDER_TYPE_H_
#define MPNANNY_MONITOR_BINDINGS_RECORDER_TYPE_H_

#include <Python.h>

namespace mpnanny {

// False with a Python error set.
bool AddRecorderType(PyObject* module);

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_BINDINGS_RECORDER_TYPE_H_
