// The recorder behind a Python object, while a call is inside of it.
//
// Made when everything that the call needs has been read from Python, and gone before its answer is
// made (the rule in guarded.h): nothing may call Python while one lives, but by letting go of
// Python's lock altogether (Unlocked), as what waits for a disk does.
#ifndef MPNANNY_MONITOR_BINDINGS_HELD_RECORDER_H_
#define MPNANNY_MONITOR_BINDINGS_HELD_RECORDER_H_

#include <Python.h>

#include <memory>
#include <mutex>

#include "monitor/bindings/guarded.h"
#include "monitor/bindings/recorder_object.h"

namespace mpnanny {

class HeldRecorder {
 public:
  // Waits, without Python's lock, while another thread is inside. Empty if the recorder is closed.
  explicit HeldRecorder(PyObject* object) {
    RecorderObject* self = Self(object);
    if (self->recorder == nullptr) return;
    lock_ = std::unique_lock(*self->inside, std::try_to_lock);
    if (!lock_.owns_lock()) {
      const Unlocked unlocked;
      lock_.lock();
    }
    recorder_ = self->recorder;
  }
  HeldRecorder(const HeldRecorder&) = delete;
  HeldRecorder& operator=(const HeldRecorder&) = delete;

  explicit operator bool() const { return recorder_ != nullptr; }
  Recorder* operator->() const { return recorder_; }

  // For close(): nobody finds the recorder any more. It is held until this goes.
  std::unique_ptr<Recorder> Take(PyObject* object) {
    Self(object)->recorder = nullptr;
    return std::unique_ptr<Recorder>(std::exchange(recorder_, nullptr));
  }

 private:
  std::unique_lock<std::mutex> lock_;
  Recorder* recorder_ = nullptr;
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_BINDINGS_HELD_RECORDER_H_
