// What runs of a program begin with, made anew for each: a run may write into its states.
//
// Borrows the program and its inputs.
#ifndef MPNANNY_ENGINES_WORKER_RUN_START_H_
#define MPNANNY_ENGINES_WORKER_RUN_START_H_

#include <vector>

#include "engines/worker/run/autocast.h"
#include "engines/worker/run/interpreter.h"
#include "engines/worker/run/shadow_runner.h"

namespace mpnanny::worker {

// `inputs`: one for each argument.
Start StartOf(const Program& program, const std::vector<IValue>& inputs,
              const CastPolicy& precision);

// The same with references: what states and inputs were before the precision rounded them.
Start StartOf(const Program& program, const std::vector<IValue>& inputs, const CastPolicy& precision,
              ShadowRunner& runner);

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_RUN_START_H_
