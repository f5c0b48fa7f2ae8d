// What speaks for and against b, as the rules behind compare_runs' verdict find it.
//
// Free functions without state; inner to this folder.
#ifndef MPNANNY_ENGINES_COMPARISON_REASONS_H_
#define MPNANNY_ENGINES_COMPARISON_REASONS_H_

#include <string>
#include <vector>

#include "engines/comparison/comparison.h"

namespace mpnanny::comparison {

struct Reasons {
  std::vector<std::string> bad, doubts, running, good;
};

inline bool IsMended(const Comparison& c) {
  return c.mend && c.mend->outcome == MendOutcome::kMended;
}

// By how the two losses end and where they go; fills final_metric.
void JudgeLosses(const Options& options, const Diagnoses& diagnoses, Comparison& c, Reasons& why);

// The two losses side by side, for what is said of a mend; "" where there are not two.
std::string LossesText(const Comparison& c);

}  // namespace mpnanny::comparison

#endif  // MPNANNY_ENGINES_COMPARISON_REASONS_H_
