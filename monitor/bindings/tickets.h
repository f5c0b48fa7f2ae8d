// Recognises a tensor that was met before in the same step, so that what one module gives and the
// next one takes is read once.
//
// Two calls get the same ticket only for the same Python object, still alive since, whose version
// counter has not moved: in-place operations move it (not those on `.data`, nor what a kernel
// writes behind torch's back), and an object that lives keeps its memory from being another's.
// Holds weak references only. Used under Python's lock.
#ifndef MPNANNY_MONITOR_BINDINGS_TICKETS_H_
#define MPNANNY_MONITOR_BINDINGS_TICKETS_H_

#include <Python.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace mpnanny {

// The version counter of a tensor; -1 where it has none (made in inference mode). Leaves no Python
// error set.
long TensorVersion(PyObject* tensor);

class TicketOffice {
 public:
  ~TicketOffice() { Forget(); }

  // A ticket for each object, 0 where none can be given. Never leaves a Python error set.
  void Fill(std::span<PyObject* const> objects, std::vector<uint64_t>& tickets);
  void Forget();

 private:
  struct Entry {
    PyObject* object = nullptr;  // borrowed: only compared
    PyObject* weak = nullptr;    // owned
    long version = 0;
    uint64_t ticket = 0;
  };
  uint64_t Of(PyObject* object);

  std::array<Entry, 32> entries_{};
  size_t next_ = 0;
  uint64_t last_ = 0;
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_BINDINGS_TICKETS_H_
