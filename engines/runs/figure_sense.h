// What a figure's name says of the way that is the good one: an accuracy should rise, the loss of
// an evaluation fall, the length of answers stay.
//
// Pure functions.
#ifndef MPNANNY_ENGINES_RUNS_FIGURE_SENSE_H_
#define MPNANNY_ENGINES_RUNS_FIGURE_SENSE_H_

#include <string>

namespace mpnanny::runs {

enum class Sense {
  kUnknown,
  kEvaluated,  // a loss or a perplexity of an evaluation: low is good
  kError,      // an error rate or a distance: low is good
  kScore,      // an accuracy, a reward: high is good
  kEntropy,    // of a policy: nothing left of it is bad
  kLength,     // of what a policy writes: nothing left of it is bad
};
Sense SenseOf(const std::string& name);
// What a training is judged by where it has no loss: an accuracy, a reward, an error rate.
bool IsScore(const std::string& name);

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_FIGURE_SENSE_H_
