// Trainings in a team's database (engines/team): which may be asked for, which there are, and one
// of them as a run with all its ranks.
//
// Plain values and free functions; a connection belongs to one call and ends with it.
#ifndef MPNANNY_ENGINES_RUNS_TRAINING_H_
#define MPNANNY_ENGINES_RUNS_TRAINING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/files.h"
#include "base/result.h"
#include "base/run_words.h"
#include "engines/runs/run.h"
#include "engines/team/address.h"

namespace mpnanny::runs {

// The database that a client means by a URL or a handle, as the user allowed it: an option of a
// client's own URL could lead libpq to another server, or to a file of this machine.
Result<team::Address> AllowedAddress(const std::string& url, const AllowedRoots& roots);

// OpenRun() of "postgresql://host/db#training"; without a number the newest.
Result<Source> OpenTraining(const std::string& handle, const AllowedRoots& roots,
                            const CancelToken& cancel, std::optional<int64_t> rank);

// What one line can tell of a training.
struct ListedTraining {
  Run run;                     // of the lowest rank, with the status of all; its handle the whole's
  std::vector<int64_t> ranks;  // ascending
  int64_t steps = 0;
  std::optional<int64_t> last_step;
  std::optional<double> last_loss;  // the ranks' mean; NaN or Inf if it was
  Word<Severity> worst_severity;    // none without an alert
  Word<AlertType> worst_type;
  std::optional<int64_t> worst_step, worst_rank;
};

// All of a database, newest first.
Result<std::vector<ListedTraining>> ListTrainings(const std::string& url, const AllowedRoots& roots,
                                                  const CancelToken& cancel);

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_TRAINING_H_
