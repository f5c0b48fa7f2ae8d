// Python lists of C++ sequences. Used under Python's lock; results are new references.
#ifndef MPNANNY_MONITOR_BINDINGS_LISTS_H_
#define MPNANNY_MONITOR_BINDINGS_LISTS_H_

#include <Python.h>

#include "monitor/bindings/owned.h"

namespace mpnanny {

// A list of what `make` makes of each element; null with a Python error set.
template <typename Elements, typename Make>
PyObject* ListOf(const Elements& elements, const Make& make) {
  PyObject* list = PyList_New(0);
  for (const auto& each : elements) {
    const Owned made(make(each));
    if (list == nullptr || !made || PyList_Append(list, made.get()) != 0) {
      Py_XDECREF(list);
      return nullptr;
    }
  }
  return list;
}

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_BINDINGS_LISTS_H_
