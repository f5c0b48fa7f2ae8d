// auto_diff of a program: it runs in FP32 and in the low precision, each beside its references, and
// the answer (docs/auto_diff.md) says what the two runs mean.
//
// A free function.
#ifndef MPNANNY_ENGINES_WORKER_DIFF_DIFF_H_
#define MPNANNY_ENGINES_WORKER_DIFF_DIFF_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engines/worker/inputs.h"
#include "engines/worker/program/program.h"

namespace mpnanny::worker {

struct DiffOptions {
  std::string target;  // as the answer calls it
  std::string dtype = "bf16";
  std::string policy = "cuda-autocast";
  std::optional<double> rel_warn, rel_error;  // flat limits of the outputs' errors
  std::string root;                           // lines of files below it are shown relative to it
};

// `say(done, what)`: progress, of 1. Throws ModelProblem, StepFailed where the model fails in FP32.
Json Diff(const Program& program, const std::vector<Input>& inputs, const DiffOptions& options,
          const std::function<void(double, const std::string&)>& say);

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_DIFF_DIFF_H_
