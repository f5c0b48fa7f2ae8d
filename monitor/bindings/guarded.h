// Where Python calls C++: no exception gets out, and Python's lock always comes back.
#ifndef MPNANNY_MONITOR_BINDINGS_GUARDED_H_
#define MPNANNY_MONITOR_BINDINGS_GUARDED_H_

#include <Python.h>

#include <exception>
#include <new>
#include <type_traits>

namespace mpnanny {

// Python's lock is let go of while one lives, and taken again when an exception leaves its scope.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() { PyEval_RestoreThread(state_); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

// What Python calls in place of `Function`: an exception that crossed the interpreter's C code
// would end the training, so that it becomes a Python error, which the front keeps to itself.
template <auto Function>
struct Guarded;
template <typename R, typename... A, R (*Function)(A...)>
struct Guarded<Function> {
  static R Call(A... arguments) {
    try {
      return Function(arguments...);
    } catch (const std::bad_alloc&) {
      PyErr_NoMemory();
    } catch (const std::exception& error) {
      PyErr_SetString(PyExc_RuntimeError, error.what());
    } catch (...) {
      PyErr_SetString(PyExc_RuntimeError, "unknown C++ exception");
    }
    if constexpr (std::is_pointer_v<R>) {
      return nullptr;
    } else {
      return -1;
    }
  }
};

// `Function`, guarded, as an entry of a table of methods.
template <auto Function>
PyCFunction Method() {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&Guarded<Function>::Call));
}

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_BINDINGS_GUARDED_H_
