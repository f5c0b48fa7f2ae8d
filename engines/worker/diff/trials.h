// Counterfactuals: the program runs again in the low precision with some lines in a wider type, and
// what comes out is held against the reference.
//
// Borrows the program, its inputs and the tape of the first run. Every trial is a whole run of
// its own, so that writes, views and loops are what they are in the model.
#ifndef MPNANNY_ENGINES_WORKER_DIFF_TRIALS_H_
#define MPNANNY_ENGINES_WORKER_DIFF_TRIALS_H_

#include <ATen/core/TensorBody.h>

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engines/judgement/finding.h"
#include "engines/worker/diff/tape.h"
#include "engines/worker/run/autocast.h"
#include "engines/worker/run/keep_runner.h"

namespace mpnanny::worker {

class Trials {
 public:
  using Clock = std::chrono::steady_clock;

  // `until`: no trial begins later.
  Trials(const Program& program, const std::vector<IValue>& inputs, const CastPolicy& precision,
         const Tape& tape, Clock::time_point until);

  // Of a finding, by its number. The lines without any of which the result would not be right:
  // first the operator itself in FP32 (FP64 where it ran in FP32), then those that made its inputs
  // as well, level by level along the inputs whose error is large, until it is right; then each
  // line is left out once.
  std::optional<judgement::Cure> FindCure(int finding);

  bool ran_out_of_time() const { return ran_out_; }

 private:
  std::optional<double> ErrorWith(const Suspect& suspect, const Kept& kept);
  std::set<std::string> LinesAbove(const Suspect& suspect, const std::set<std::string>& lines,
                                   double share) const;
  std::optional<judgement::Cure> Search(const Suspect& suspect, c10::ScalarType type, double share);
  judgement::Cure Described(const Suspect& suspect, const Kept& kept, double after) const;
  const Node* NodeOf(int call) const;
  bool HasTime();

  const Program& program_;
  const std::vector<IValue>& inputs_;
  CastPolicy precision_;
  const Tape& tape_;
  Clock::time_point until_;
  bool ran_out_ = false;
};

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_DIFF_TRIALS_H_
