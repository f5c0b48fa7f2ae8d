// What only the flight recorder beside a file knows of a run that was killed: its last steps, and
// how it ended. They go as `mpnanny pack` keeps them (engines/runs/packed.h), so that a reader
// without the machine's files knows as much.
//
// Free function; plain values.
#ifndef MPNANNY_ENGINES_TEAM_RING_ROWS_H_
#define MPNANNY_ENGINES_TEAM_RING_ROWS_H_

#include <cstdint>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "engines/runs/run.h"
#include "engines/team/run_reader.h"

namespace mpnanny::team {

// Nothing for a run whose row tells its end.
Result<std::vector<Piece>> RingRows(const runs::Run& run, const runs::Ring& ring, int64_t training,
                                    const CancelToken& cancel);

}  // namespace mpnanny::team

#endif  // MPNANNY_ENGINES_TEAM_RING_ROWS_H_
