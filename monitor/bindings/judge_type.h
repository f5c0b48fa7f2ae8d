// The judge of a shadow step as Python's mpnanny._core.Judge, and what a run remembers of changes
// that got lost as mpnanny._core.LostChanges. Used under Python's lock.
#ifndef MPNANNY_MONITOR_BINDINGS_JUDGE_TYPE_H_
#define MPNANNY_MONITOR_BINDINGS_JUDGE_TYPE_H_

#include <Python.h>

namespace mpnanny {

// False with a Python error set if that fails.
bool AddJudgeTypes(PyObject* module);

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_BINDINGS_JUDGE_TYPE_H_
