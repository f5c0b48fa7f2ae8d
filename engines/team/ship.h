// Ships runs from their files into a team's database: once, or beside a training as long as it
// goes on.
//
// The files are only read, by short looks; the training knows nothing of it. What was shipped is
// what the server says, so it may be cut off anywhere and begun again. Ship() owns its connections
// and threads, which end before it returns.
#ifndef MPNANNY_ENGINES_TEAM_SHIP_H_
#define MPNANNY_ENGINES_TEAM_SHIP_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "base/stop_event.h"
#include "engines/team/address.h"

namespace mpnanny::team {

struct ShipOptions {
  std::vector<std::string> what;  // as found_files.h takes them
  Address to;
  bool follow = false;   // until the runs have ended
  double new_since = 0;  // Unix seconds: only runs that began later, and until told to stop
  double interval = 2;   // seconds between two looks
  int lanes = 2;         // connections that work side by side
  std::function<void(const std::string& line)> tell;  // what happens, for people
};

struct ShippedTraining {
  int64_t training = 0;
  std::string name;   // raw
  int64_t ranks = 0;  // of which something was looked at here
  int64_t world_size = 1;
  int64_t rows = 0;   // that went now
  bool whole = true;  // all that the files hold is there
  bool running = false;
};

struct ShipReport {
  std::vector<ShippedTraining> trainings;
  int64_t rows = 0, bytes = 0;
  std::vector<std::string> notes;  // files that could not be read
  bool whole = true;
};

// `stop`: ends a follower after a last look. `cancel` ends whatever waits; give it a deadline when
// `stop` is raised.
Result<ShipReport> Ship(const ShipOptions& options, const StopEvent& stop,
                        const CancelToken& cancel);

}  // namespace mpnanny::team

#endif  // MPNANNY_ENGINES_TEAM_SHIP_H_
