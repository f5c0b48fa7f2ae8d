// One run of a program beside its references: what was found, and how far the outputs are off.
//
// Plain values and a free function.
#ifndef MPNANNY_ENGINES_WORKER_DIFF_MEASURED_H_
#define MPNANNY_ENGINES_WORKER_DIFF_MEASURED_H_

#include <ATen/core/TensorBody.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engines/worker/diff/tape.h"
#include "engines/worker/run/autocast.h"
#include "numerics/reference_error.h"

namespace mpnanny::worker {

// A tensor among the results of the model: "output", "0", "0.loss".
struct Output {
  std::string name;
  at::Tensor held, reference;
  std::optional<ReferenceError> found;  // of floating-point ones
  bool noise = false;                   // its reference is 0 but for rounding

  double error() const;  // infinite where something is not finite that is in the reference
};

struct Measured {
  std::vector<Output> outputs;
  std::unique_ptr<Tape> tape = std::make_unique<Tape>();
  std::optional<StepFailed> raised;
  std::set<std::string> missing_kernels, not_followed;
  int operators = 0, in_low = 0;  // the latter: read or gave a value of less than 32 bits
  double seconds = 0;
  // Inputs and states that the type cannot hold: name, share, largest.
  struct Unheld {
    std::string name;
    double share = 0, magnitude = 0;
  };
  std::vector<Unheld> unheld;
};

Measured Measure(const Program& program, const std::vector<IValue>& inputs,
                 const CastPolicy& precision);

// Tensors of the model's results, named; `values` one for each of its outputs.
std::vector<std::pair<std::string, at::Tensor>> NamedTensors(const std::vector<IValue>& values);

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_DIFF_MEASURED_H_
