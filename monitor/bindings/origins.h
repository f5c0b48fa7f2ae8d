// What the trace of operators asks the core: whether tensors are finite, and to take the origin of
// a value that is not. Python's calling conventions; used under Python's lock.
#ifndef MPNANNY_MONITOR_BINDINGS_ORIGINS_H_
#define MPNANNY_MONITOR_BINDINGS_ORIGINS_H_

#include <Python.h>

namespace mpnanny {

// nan_origin(phase, name, source, module or None, nan, count, message, operators) -> layer id
PyObject* SeeOrigin(PyObject* object, PyObject* args);

// explained() -> what has been added to an alert since, or ""
PyObject* Explained(PyObject* object, PyObject*);

// broken_buffers(which, json): before explain()
PyObject* BrokenBuffers(PyObject* object, PyObject* args);

// nonfinite(tensors): 1 NaN + 2 +Inf + 4 -Inf, over a tensor or tuples, lists and dicts of them.
PyObject* NonFinite(PyObject* module, PyObject* tensors);

// figures(tensors) -> (nan, posinf, neginf, numel, absmax of the finite ones or None)
PyObject* Figures(PyObject* module, PyObject* tensors);

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_BINDINGS_ORIGINS_H_
