// What a judge has found, as Python objects. Used under Python's lock; results are new references.
#ifndef MPNANNY_MONITOR_BINDINGS_FINDING_TUPLES_H_
#define MPNANNY_MONITOR_BINDINGS_FINDING_TUPLES_H_

#include <Python.h>

#include "engines/judgement/judge.h"

namespace mpnanny {

// The fields of ReferenceError, in their order.
PyObject* FiguresTuple(const ReferenceError& found);

// The fields of Finding, in their order (mpnanny.fp64.findings reads them).
PyObject* FindingTuple(const judgement::Finding& finding);

// (lines, operators, what, error before, error after) | None
PyObject* CureTuple(const std::optional<judgement::Cure>& cure);

// (place, dtype, error)
PyObject* CameInTuple(const judgement::CameIn& came_in);

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_BINDINGS_FINDING_TUPLES_H_
