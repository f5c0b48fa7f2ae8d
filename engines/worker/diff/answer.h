// Two runs and their verdict as the answer of auto_diff, whose fields docs/auto_diff.md explains.
//
// A free function.
#ifndef MPNANNY_ENGINES_WORKER_DIFF_ANSWER_H_
#define MPNANNY_ENGINES_WORKER_DIFF_ANSWER_H_

#include "engines/worker/diff/diff.h"
#include "engines/worker/diff/verdict.h"

namespace mpnanny::worker {

Json AnswerOf(const Program& program, const std::vector<Input>& inputs, const DiffOptions& options,
              const Measured& full, const Measured& low, const Verdict& verdict,
              const Trials& trials);

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_DIFF_ANSWER_H_
