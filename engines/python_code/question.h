// What is to be run: the arguments of a call, checked, with paths resolved, in the form that the
// Python side takes (monitor/python/mpnanny/diff and precision).
//
// Plain values and a free function; safe from any thread.
#ifndef MPNANNY_ENGINES_PYTHON_CODE_QUESTION_H_
#define MPNANNY_ENGINES_PYTHON_CODE_QUESTION_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "base/result.h"

namespace mpnanny::python_code {

// Whether the code computes on this machine's GPUs.
enum class Gpu { kNo, kIfAllowed, kNeeded };
// Of the argument `device`: "cuda" needs one, "cpu" none; other words, which name hardware or leave
// it open, take one where that is allowed.
Gpu GpuOf(const std::string& device);

struct Question {
  std::string module;  // the Python side, mpnanny.diff
  Json request;        // for it
  std::string python;  // the interpreter
  std::chrono::seconds seconds{60};
  uint64_t memory_mb = 8192;
  Gpu gpu = Gpu::kNo;
};

// `targets`: names of the arguments of which exactly one has to be given; an InvalidInput says
// otherwise `how` to give one. What AllowedRoots says of a path.
Result<Question> ReadQuestion(const std::string& module, const std::vector<std::string>& targets,
                              const std::string& how, const Json& arguments,
                              const AllowedRoots& roots);

// An input that names a file of tensors ("batch.pt", "x=batch.pt#key") with the file resolved;
// other words, which describe one, as they are.
Result<std::string> ResolveInput(const std::string& word, const AllowedRoots& roots);

// The folder that imports are made from: the nearest one above `file` that looks like a project's,
// or the file's own.
std::string ProjectOf(const std::string& file);

}  // namespace mpnanny::python_code

#endif  // MPNANNY_ENGINES_PYTHON_CODE_QUESTION_H_
