// Where Python calls C++: no exception gets out, and Python's lock always comes back.
//
// The rule of these bindings. Python's lock is let go of, and another thread may run any function
// here, whenever a call can get back into Python or torch: a method or an attribute of a tensor
// (is_neg() lets go of it by itself), a conversion of an object that is no plain number, anything
// that makes a container (on older Pythons it may collect garbage), and giving back a reference,
// which may run a destructor. Across such a call a function holds nothing that another thread could
// change or free:
//   - Objects it goes on with are owned (Owned), not borrowed from a list or a dict, which another
//     thread may change meanwhile. What is in a tuple, and the arguments of the call, stay.
//   - Lists of tensors belong to the call (CallTensors), and own their tensors.
//   - The core is entered last, when everything has been read from Python, and left before the
//     answer is made: a HeldRecorder lives for that alone. It waits, without Python's lock, until
//     no other thread is inside, and is empty if the recorder has been closed meanwhile.
//   - What is static is a cache whose entries never move, changed in one piece under Python's lock.
#ifndef MPNANNY_MONITOR_BINDINGS_GUARDED_H_
#define MPNANNY_MONITOR_BINDINGS_GUARDED_H_

#include <Python.h>

#include <exception>
#include <new>
#include <type_traits>
#if defined(__GLIBCXX__)
#include <cxxabi.h>
#endif

namespace mpnanny {

// Python's lock is let go of while one lives, and taken again when an exception leaves its scope.
// Where the interpreter has ended meanwhile it ends this thread there, by unwinding its stack.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() noexcept(false) { PyEval_RestoreThread(state_); }
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
#if defined(__GLIBCXX__)
    } catch (const abi::__forced_unwind&) {
      throw;  // the thread is being ended, see Unlocked
#endif
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
