// The steps of a training, merged over its ranks on the server: what a reader would else do with
// every rank's rows at each question.
//
// Free function on a Connection that the caller owns. Any writer may merge; who finds another one
// at it leaves it alone.
#ifndef MPNANNY_ENGINES_TEAM_MERGE_STEPS_H_
#define MPNANNY_ENGINES_TEAM_MERGE_STEPS_H_

#include <cstdint>

#include "base/result.h"
#include "engines/team/connection.h"

namespace mpnanny::team {

// Brings mpnanny.step_all up to the step that all ranks have passed; a rank that has ended holds up
// nobody. `at_most_every`: nothing is done where somebody merged within so many seconds.
Result<void> MergeSteps(Connection& connection, int64_t training, double at_most_every);

}  // namespace mpnanny::team

#endif  // MPNANNY_ENGINES_TEAM_MERGE_STEPS_H_
