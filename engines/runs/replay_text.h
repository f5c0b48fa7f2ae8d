// What is said of an operator that gave other bits when it ran again.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_RUNS_REPLAY_TEXT_H_
#define MPNANNY_ENGINES_RUNS_REPLAY_TEXT_H_

#include <string>

#include "engines/runs/sentence.h"
#include "engines/runs/shadow.h"

namespace mpnanny::runs {

// `place`: "file:line", escaped; "" if not known.
Sentence NotReproduced(const ShadowFinding& finding, const std::string& place);

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_REPLAY_TEXT_H_
