// Between Python objects and the core's plain values. Used under Python's lock; results are new
// references.
#ifndef MPNANNY_MONITOR_BINDINGS_CONVERT_H_
#define MPNANNY_MONITOR_BINDINGS_CONVERT_H_

#include <Python.h>

#include <optional>
#include <string>
#include <string_view>

#include "monitor/core/recorder.h"

namespace mpnanny {

// A number, or nothing for None and for what is no number. Leaves no Python error set.
std::optional<double> OptionalDouble(PyObject* value);

// The same of a whole number; one with a fraction loses it.
std::optional<int64_t> OptionalWhole(PyObject* value);

std::string OrEmpty(const char* text);

inline PyObject* NoneObject() { Py_RETURN_NONE; }

PyObject* Text(std::string_view text);

// None where there is none.
PyObject* OptionalNumber(const std::optional<double>& value);

// (at, duration, loss, lr, scale, scale_after, growth_interval, skipped, peak_memory); None where
// not known.
// False with a Python error set if `args` is no such tuple.
bool ParseEnd(PyObject* args, StepEnd& end);

// (step, phase, layer or None, type, severity, value, threshold, producer or None, message)
PyObject* AlertTuple(const AlertRow& alert);

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_BINDINGS_CONVERT_H_
