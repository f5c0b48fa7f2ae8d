// What a wrong value of a finding got into, in words.
//
// Free function without state. Texts out of the file come back escaped.
#ifndef MPNANNY_ENGINES_RUNS_SHADOW_REACH_H_
#define MPNANNY_ENGINES_RUNS_SHADOW_REACH_H_

#include "engines/runs/sentence.h"
#include "engines/runs/shadow.h"

namespace mpnanny::runs {

// "Reaches the loss and the gradient of fc.weight (error 3 %)."; empty where nothing is known.
Sentence ReachText(const ShadowFinding& finding);

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_SHADOW_REACH_H_
