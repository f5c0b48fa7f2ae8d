// What stands behind Python's mpnanny._core.Recorder. Used under Python's lock; the recorder itself
// through a HeldRecorder.
#ifndef MPNANNY_MONITOR_BINDINGS_RECORDER_OBJECT_H_
#define MPNANNY_MONITOR_BINDINGS_RECORDER_OBJECT_H_

#include <Python.h>

#include <mutex>
#include <set>
#include <string>

#include "monitor/bindings/tickets.h"
#include "monitor/core/recorder.h"

namespace mpnanny {

struct RecorderObject {
  PyObject ob_base;
  // All owned. The recorder is null after close() and abandon(): every method is a no-op then, and
  // training goes on.
  Recorder* recorder;
  std::mutex* inside;  // locked by the thread that is inside of the recorder
  TicketOffice* tickets;
  std::set<std::string>* unreadable;  // why tensors of the run could not be read; each reason once
};

inline RecorderObject* Self(PyObject* object) { return reinterpret_cast<RecorderObject*>(object); }

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_BINDINGS_RECORDER_OBJECT_H_
