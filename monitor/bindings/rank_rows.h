// Python's calls for what ranks compare: figures of tensors, and their rows.
// Python's calling conventions; used under Python's lock.
#ifndef MPNANNY_MONITOR_BINDINGS_RANK_ROWS_H_
#define MPNANNY_MONITOR_BINDINGS_RANK_ROWS_H_

#include <Python.h>

namespace mpnanny {

// rank_figures(tensor, first) -> (hash, numel, nonfinite, squares, a, b) | None
PyObject* RankFiguresOf(PyObject* module, PyObject* args);

// rank_figure(step, layer, what, holders, first, figures): of the recorder.
PyObject* RankFigure(PyObject* object, PyObject* args);

// collective(step, sequence, operation, reduction, ranks, source, phase, layer, gradient, in, out,
// value_in, value_out, kept): of the recorder; in and out as figures.
PyObject* Collective(PyObject* object, PyObject* args);

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_BINDINGS_RANK_ROWS_H_
