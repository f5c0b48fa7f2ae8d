// Reads a row of the tape from the arguments of a call, one field after the other
// (engines/judgement/fields.h). Borrows the tuple. Used under Python's lock.
#ifndef MPNANNY_MONITOR_BINDINGS_ROW_READER_H_
#define MPNANNY_MONITOR_BINDINGS_ROW_READER_H_

#include <Python.h>

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engines/judgement/fields.h"
#include "monitor/bindings/convert.h"
#include "monitor/bindings/owned.h"

namespace mpnanny {

class RowReader {
 public:
  explicit RowReader(PyObject* tuple, Py_ssize_t first = 0) : tuple_(tuple), at_(first) {}

  // Whether there was an argument for each field, of its type, and none was left; else a Python
  // error is set.
  bool IsDone() {
    if (PyErr_Occurred() == nullptr && at_ != PyTuple_Size(tuple_))
      PyErr_SetString(PyExc_TypeError, "these are not the fields of the row");
    return PyErr_Occurred() == nullptr;
  }

  // The next argument is `field`.
  void operator()(const char*, auto& field) {
    if (PyErr_Occurred() != nullptr) return;
    PyObject* value = PyTuple_GetItem(tuple_, at_++);  // IndexError where there is none
    if (value != nullptr) Read(value, field);
  }

 private:
  static void Read(PyObject* value, std::integral auto& field) {
    field = static_cast<std::remove_reference_t<decltype(field)>>(PyLong_AsLongLong(value));
  }
  static void Read(PyObject* value, bool& field) { field = PyObject_IsTrue(value) == 1; }
  static void Read(PyObject* value, double& field) { field = PyFloat_AsDouble(value); }
  static void Read(PyObject* value, std::optional<double>& field) { field = OptionalDouble(value); }
  static void Read(PyObject* value, std::string& field) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(value, &size);
    if (text != nullptr) field.assign(text, static_cast<size_t>(size));
  }
  static void Read(PyObject* value, std::optional<std::string>& field) {
    if (value != Py_None) Read(value, field.emplace());
  }
  static void Read(PyObject* value, Phase& field) {
    std::string name;
    Read(value, name);
    field = FindNamed<Phase>(name).value_or(Phase::kForward);
  }
  static void Read(PyObject* value, judgement::Element& field) {
    const long number = PyLong_AsLong(value);
    const bool is_known = number >= 0 && number <= static_cast<long>(judgement::Element::kOther);
    field = is_known ? static_cast<judgement::Element>(number) : judgement::Element::kOther;
  }
  static void Read(PyObject* value, std::vector<int64_t>& field) {
    const Py_ssize_t count = PyTuple_Size(value);  // a torch.Size is one
    for (Py_ssize_t at = 0; at < count; ++at)
      field.push_back(PyLong_AsLongLong(PyTuple_GetItem(value, at)));
  }
  static void Read(PyObject* value, std::vector<judgement::Input>& field) {
    const Py_ssize_t count = PyList_Size(value);
    for (Py_ssize_t at = 0; at < count; ++at) {
      const Owned row = Owned::Of(PyList_GetItem(value, at));
      if (!row) return;
      RowReader reader(row.get());
      judgement::Fields(field.emplace_back(), reader);
      if (!reader.IsDone()) return;
    }
  }

  PyObject* tuple_;
  Py_ssize_t at_;
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_BINDINGS_ROW_READER_H_
