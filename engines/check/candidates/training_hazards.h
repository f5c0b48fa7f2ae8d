// Candidates about how a training is set up: regions, scalers, casts of weights, gradients. What
// stands there is known; whether it fits what runs elsewhere is for a reader to judge.
//
// Free function without state.
#ifndef MPNANNY_ENGINES_CHECK_CANDIDATES_TRAINING_HAZARDS_H_
#define MPNANNY_ENGINES_CHECK_CANDIDATES_TRAINING_HAZARDS_H_

#include <string_view>
#include <vector>

#include "engines/check/facts/facts.h"

namespace mpnanny::check {

struct TrainingHazard {
  NodeId node = kNoNode;
  std::string_view rule;      // the page that explains it
  std::string_view hazard;    // what may go wrong
  std::string_view known;     // what the text shows there
  std::string_view unknown;   // what it does not
  std::string_view question;  // what decides
  double score = 0;
  bool in_fp32 = false;  // whatever the project's precision is
};

// How likely it is that the place matters, by kind: they order, nothing is claimed with them.
inline constexpr double kLikely = 0.55, kPossible = 0.45, kSeldom = 0.3;

std::vector<TrainingHazard> FindTrainingHazards(const FileFacts& facts);
// Those of weights, buffers, checkpoints and switches: weight_hazards.cc.
void AddWeightHazards(const FileFacts& facts, std::vector<TrainingHazard>* found);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_CANDIDATES_TRAINING_HAZARDS_H_
