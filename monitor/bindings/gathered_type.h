// `_core.Gathered`: GatheredTensors for Python, and the calls that it tells a recorder of.
#ifndef MPNANNY_MONITOR_BINDINGS_GATHERED_TYPE_H_
#define MPNANNY_MONITOR_BINDINGS_GATHERED_TYPE_H_

#include <Python.h>

#include "monitor/bindings/gathered_tensors.h"

namespace mpnanny {

// Null with a Python error set for another object.
GatheredTensors* GatheredIn(PyObject* object);

// False with a Python error set.
bool AddGatheredType(PyObject* module);

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_BINDINGS_GATHERED_TYPE_H_
