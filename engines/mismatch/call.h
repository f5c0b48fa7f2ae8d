// One comparison of log-probabilities, whoever made it: a call of log_mismatch in a training, a
// pair of files, a line of a log.
//
// Plain values.
#ifndef MPNANNY_ENGINES_MISMATCH_CALL_H_
#define MPNANNY_ENGINES_MISMATCH_CALL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "numerics/logprob_mismatch.h"

namespace mpnanny::mismatch {

// A way in which the output head was computed anew from the trainer's hidden states, and how far
// its log-probabilities are from both sides'.
struct HeadWay {
  std::string name;  // "fp32", "head_and_logits_bf16", "temperature", "top_p" …
  double value = 0;  // of temperature, top_k and top_p
  double trainer_rest = 0, rollout_rest = 0;  // rms, nats
};

struct Call {
  int64_t step = 0;            // of the run
  std::optional<int64_t> own;  // as the program counts updates
  std::optional<bool> synced;  // the engine has got the weights since the call before
  LogprobMismatch figures;
  std::vector<HeadWay> head;  // none: not tried
  std::optional<double> lr;
  // Of a log: the figure that it prints, under its name; `figures` follows from it.
  std::string log_name;
  double log_value = 0;

  int64_t shown_step() const { return own.value_or(step); }
};

// Of one rank of a training that has several: how far its calls are apart in all.
struct RankSize {
  int64_t rank = 0;
  size_t calls = 0;
  double rms = 0;  // nats; infinite: a log-probability was not finite
};

struct Calls {
  std::vector<Call> calls;         // in their order
  std::vector<RankSize> ranks;     // that called; empty: not a run
  std::vector<std::string> notes;  // what limits the reading, for people
};

}  // namespace mpnanny::mismatch

#endif  // MPNANNY_ENGINES_MISMATCH_CALL_H_
