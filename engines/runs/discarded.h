// Gradients that were not finite and never came into the weights: a GradScaler, or the program's
// own test, left the step out.
//
// Free function; reads a few rows of the run.
#ifndef MPNANNY_ENGINES_RUNS_DISCARDED_H_
#define MPNANNY_ENGINES_RUNS_DISCARDED_H_

#include "base/result.h"
#include "engines/runs/alerts.h"

namespace mpnanny::runs {

// True of an ERROR about gradients alone (NAN or INF in the backward pass) after which the training
// went on: no loss of this step and the 20 that follow is NaN or Inf, and in one of them gradients
// are finite. An update with such gradients would have made the weights, and so the losses, NaN.
Result<bool> GradientsWereDiscarded(const Source& source, const AlertRow& alert);

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_DISCARDED_H_
