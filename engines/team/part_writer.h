// One rank's place on the server: found or made, and batches put into it.
//
// A batch and the marks that say it is there are one transaction, so a cut leaves either both or
// neither. Two who ship the same rank take turns: who finds other marks than it knows says so.
//
// Plain values and free functions on a Connection that the caller owns.
#ifndef MPNANNY_ENGINES_TEAM_PART_WRITER_H_
#define MPNANNY_ENGINES_TEAM_PART_WRITER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "engines/runs/run.h"
#include "engines/team/connection.h"
#include "engines/team/marks.h"
#include "engines/team/run_reader.h"

namespace mpnanny::team {

struct Part {
  int64_t training = 0, rank = 0;
  Marks marks;
  std::string stored;  // the marks as the server has them
  bool ended = false;
  bool thinned = false;  // its statistics were, on the server
  bool careful = false;  // rows may be there already though the marks do not say so
};

// Finds or makes the training's rank for the run.
Result<Part> OpenPart(Connection& connection, const runs::Run& run);

struct Written {
  bool moved = false;  // somebody else shipped in between: `part` has the server's marks now; read
                       // again
  int64_t rows = 0;    // that were not there before, or were other
};
// `ended`: with this batch all of a run that is over is there.
Result<Written> WriteBatch(Connection& connection, Part& part, Batch& batch, bool ended);

}  // namespace mpnanny::team

#endif  // MPNANNY_ENGINES_TEAM_PART_WRITER_H_
