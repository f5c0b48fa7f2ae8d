// A Python object that is owned while one of these lives. Used under Python's lock.
#ifndef MPNANNY_MONITOR_BINDINGS_OWNED_H_
#define MPNANNY_MONITOR_BINDINGS_OWNED_H_

#include <Python.h>

namespace mpnanny {

class Owned {
 public:
  // Takes over a new reference; null where making it has failed.
  explicit Owned(PyObject* made) : object_(made) {}
  // Owns what another one lends, as an item of a list.
  static Owned Of(PyObject* borrowed) {
    Py_XINCREF(borrowed);
    return Owned(borrowed);
  }
  ~Owned() { Py_XDECREF(object_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

  explicit operator bool() const { return object_ != nullptr; }
  PyObject* get() const { return object_; }

 private:
  PyObject* object_;
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_BINDINGS_OWNED_H_
