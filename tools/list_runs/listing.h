// Which runs are at or below a path, newest first, with what one line can tell of each.
//
// Plain values; free function. One database is open at a time.
#ifndef MPNANNY_TOOLS_LIST_RUNS_LISTING_H_
#define MPNANNY_TOOLS_LIST_RUNS_LISTING_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/files.h"
#include "base/result.h"
#include "engines/runs/run.h"

namespace mpnanny::list_runs {

inline constexpr std::chrono::seconds kListingTime{20};

// A run of one process, or a distributed one with all its ranks.
struct ListedRun {
  runs::Run run;               // of ranks: the lowest, with the status of all
  std::vector<int64_t> ranks;  // of a distributed run, those that are here, ascending
  int64_t steps = 0;
  std::optional<int64_t> last_step;
  std::optional<double> last_loss;  // NaN or Inf if it was; of ranks their mean
  Word<Severity> worst_severity;    // none without an alert
  Word<AlertType> worst_type;
  std::optional<int64_t> worst_step;
  std::optional<int64_t> worst_rank;  // of a distributed run
  // Where it lies, as far up as tells it from others of its name; "" where no other has it.
  std::string place;
  std::string format;  // of another program's log: "TensorBoard event files"; "" for a database
};

struct Listing {
  std::vector<ListedRun> runs;  // newest first
  size_t databases = 0, logs = 0;
  std::vector<std::string> notes;  // files that could not be read, where a search ended early
};

// `path`: a database, a folder, or a team's database as a URL. Databases of the monitor, and in a
// folder the logs of other programs that the tools read as runs (TensorBoard, W&B,
// trainer_state.json, metrics.csv): other programs' databases are passed over, and what is damaged
// or large is noted. After `limit` no further file is opened, which a note says.
Result<Listing> ListRuns(const std::string& path, const AllowedRoots& roots,
                         const CancelToken& cancel,
                         CancelToken::Clock::duration limit = kListingTime);

}  // namespace mpnanny::list_runs

#endif  // MPNANNY_TOOLS_LIST_RUNS_LISTING_H_
