// Comparisons of held tensors with their FP64 references (numerics/reference_error.h), and what
// formats would make of them (numerics/format_error.h), as functions of the extension module. Used
// under Python's lock.
#ifndef MPNANNY_MONITOR_BINDINGS_COMPARE_H_
#define MPNANNY_MONITOR_BINDINGS_COMPARE_H_

#include <Python.h>

namespace mpnanny {

// compare(held, reference, floor=0.0) -> tuple in the order of _core.pyi, or None where one of the
// two cannot be read.
PyObject* Compare(PyObject*, PyObject* args);

// compare_change(held_before, held_after, reference_before, reference_after) -> tuple, or None.
PyObject* CompareChanges(PyObject*, PyObject* args);

// format_errors(tensor) -> tuple of the fields of FormatErrors, or None where it cannot be read.
PyObject* FormatsOf(PyObject*, PyObject* tensor);

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_BINDINGS_COMPARE_H_
