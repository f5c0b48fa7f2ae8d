#include "monitor/bindings/tickets.h"

#include <utility>

#include "monitor/bindings/readings.h"

namespace mpnanny {

long TensorVersion(PyObject* tensor) {
  static PyObject* const name = PyUnicode_InternFromString("_version");
  PyObject* value = PyObject_GetAttr(tensor, name);
  const long version = value != nullptr ? PyLong_AsLong(value) : -1;
  Py_XDECREF(value);
  PyErr_Clear();
  return version;
}

void TicketOffice::Forget() {
  for (Entry& entry : entries_) Py_XDECREF(std::exchange(entry, {}).weak);
}

uint64_t TicketOffice::Of(PyObject* object) {
  // A reading stands for one tensor in one state, and lives as long as its step is told.
  if (KnownView(object) != nullptr) return reinterpret_cast<uintptr_t>(object);
  const long version = TensorVersion(object);
  if (version < 0) return 0;
  for (const Entry& entry : entries_) {
    if (entry.object == object && entry.version == version && entry.weak != nullptr &&
        PyWeakref_GetObject(entry.weak) == object) {
      return entry.ticket;
    }
  }
  PyObject* weak = PyWeakref_NewRef(object, nullptr);
  if (weak == nullptr) return PyErr_Clear(), 0;
  const uint64_t ticket = ++last_;
  const size_t place = std::exchange(next_, (next_ + 1) % entries_.size());
  Py_XDECREF(std::exchange(entries_[place], {object, weak, version, ticket}).weak);
  return ticket;
}

void TicketOffice::Fill(std::span<PyObject* const> objects, std::vector<uint64_t>& tickets) {
  tickets.clear();
  for (PyObject* object : objects) tickets.push_back(Of(object));
}

}  // namespace mpnanny
