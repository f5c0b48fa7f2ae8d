// What a device has told of a tensor, as a Python object that stands for the tensor.
//
// Statistics of tensors on a device arrive after their step has ended (mpnanny._device). The front
// then tells the core of the step in the same calls as ever, with readings where tensors would be.
// Used under Python's lock.
#ifndef MPNANNY_MONITOR_BINDINGS_READINGS_H_
#define MPNANNY_MONITOR_BINDINGS_READINGS_H_

#include <Python.h>

#include "numerics/tensor_stats.h"

namespace mpnanny {

// A reading; null with a Python error set. `exponents`: null where they are not known.
PyObject* MakeReading(DType dtype, const TensorStats& stats,
                      const ExponentHistogram* exponents = nullptr);

// The view that a reading stands for, while the object lives; null for every other object.
const TensorView* KnownView(PyObject* object);

// Adds the functions that make readings, and those that tell a step late. False with a Python error
// set if that fails.
bool AddReadings(PyObject* module);

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_BINDINGS_READINGS_H_
