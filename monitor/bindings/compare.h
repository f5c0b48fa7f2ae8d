// Comparisons of held tensors with their FP64 references (numerics/reference_error.h), and what
// formats would make of them (numerics/format_error.h, format_loss.h), as functions of the extension module. Used
// under Python's lock.
#ifndef MPNANNY_MONITOR_BINDINGS_COMPARE_H_
#define MPNANNY_MONITOR_BINDINGS_COMPARE_H_

#include <Python.h>

namespace mpnanny {

// compare(held, reference) -> tuple in the order of _core.pyi, or None where one of the two cannot
// be read.
PyObject* Compare(PyObject*, PyObject* args);

// compare_change(held_before, held_after, reference_before, reference_after) -> tuple, or None.
PyObject* CompareChanges(PyObject*, PyObject* args);

// grid(tensor) -> (GridName, on_fp16, on_bf16, numel, finite, zeros, absmin, absmax) of TensorStats,
// or None where it cannot be read.
PyObject* GridsOf(PyObject*, PyObject* tensor);

// format_errors(tensor) -> tuple of the fields of FormatErrors, or None where it cannot be read.
PyObject* FormatsOf(PyObject*, PyObject* tensor);

// format_loss(tensor, format, scale) -> tuple of the fields of FormatLoss and the best scale's
// exponent, or None where it cannot be read. ValueError for another format.
PyObject* FormatLossOf(PyObject*, PyObject* args);

// dimension_losses(tensor, format) -> list of tuples of the fields of DimensionLoss, or None.
PyObject* DimensionLossesOf(PyObject*, PyObject* args);

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_BINDINGS_COMPARE_H_
