// What each module of a program gives in one run, as a file that auto_diff compares with another.
//
// A free function. The file is that of mpnanny.diff.capture: names as there, in the order in which
// they were made.
#ifndef MPNANNY_ENGINES_WORKER_CAPTURE_H_
#define MPNANNY_ENGINES_WORKER_CAPTURE_H_

#include <string>
#include <vector>

#include "base/json.h"
#include "engines/worker/program/program.h"

namespace mpnanny::worker {

// Writes `path` (safetensors) and gives {"file", "tensors", "bytes"}.
Json Capture(const Program& program, const std::vector<IValue>& inputs, const std::string& path);

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_CAPTURE_H_
