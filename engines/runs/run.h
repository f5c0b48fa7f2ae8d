// A monitored run: what its row says, whether it still goes on, and how a handle or a folder leads
// to it.
//
// Plain values and free functions; a Source belongs to one call on one thread.
#ifndef MPNANNY_ENGINES_RUNS_RUN_H_
#define MPNANNY_ENGINES_RUNS_RUN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/files.h"
#include "base/result.h"
#include "base/run_handle.h"
#include "base/run_words.h"
#include "engines/runs/database.h"
#include "engines/runs/import/open.h"
#include "engines/runs/ring.h"

namespace mpnanny::runs {

enum class Status { kRunning, kClosed, kException, kKilled };
// A run without an end that gave no sign of life for so long is one that nobody writes any more.
inline constexpr double kFreshSeconds = 60;

struct Run {
  RunHandle handle;  // canonical path and id
  std::string name;  // raw; show it through EscapeControl
  std::optional<int64_t> parent;
  int64_t rank = 0, world_size = 1;
  double started_at = 0;  // Unix seconds
  std::optional<double> heartbeat_at, ended_at;
  Word<EndReason> end_reason;
  Word<Precision> precision;
  std::optional<int64_t> trace_interval;
  std::string environment, notes;  // JSON as written; "" if absent or too large
  Status status = Status::kKilled;
};

// A text of the run's environment ("host", "script"), raw; "" if it has none.
std::string EnvironmentText(const Run& run, const char* key);

// One more rank of a distributed run, which writes a database of its own.
struct OtherRank {
  std::shared_ptr<Database> database;  // shared where all ranks lie in one
  Run run;
  Ring ring;
};

// Everything about one run that an engine reads from: its database, its row, and its ring (empty if
// the file's ring belongs to another run).
//
// Of a distributed run, `database`, `run` and `ring` are those of the rank that decides: the one
// that was bad first, else the first there is. Steps and alerts are merged over all ranks
// (steps.h, alerts.h); layers and samples are the deciding rank's.
struct Source {
  std::shared_ptr<Database> database;
  Run run;
  Ring ring;
  std::vector<std::string> notes;  // what limits the reading: a missing -wal, a damaged ring …
  std::vector<OtherRank>
      others;       // ascending; empty for one process, or where one rank is asked for
  RunHandle shown;  // what answers call the run; the path is empty: run.handle
  // A log that another program wrote has the name of its format here ("TensorBoard event files")
  // and steps only; "" for a monitor's database.
  std::string format;
  bool numbered = true;            // false: that log says no steps, they are its lines
  bool of_players = false;         // its losses are of two players that learn by each other
  std::vector<std::string> texts;  // console output that belongs to the run: canonical paths
  std::vector<imports::RunOfFile> of_file;  // a log's file that holds several: all of them
};

// The handle that answers show, escaped: it leads to the same run, with the same ranks.
std::string ShownHandle(const Source& source);
// Another of the runs that a log's file holds.
Result<Source> OtherOfFile(const Source& source, int64_t run_id);
// The ranks that are read, ascending; empty for a run of one process.
std::vector<int64_t> RanksOf(const Source& source);

// All runs of a database, newest first (by start, then id).
Result<std::vector<Run>> ReadRuns(const Database& database, const Ring& ring);

// All ranks of the training that a database holds, ascending, without their environment and notes:
// a thousand ranks have them alike. ReadTexts() reads those of one.
Result<std::vector<Run>> ReadRanks(const Database& training);
Result<void> ReadTexts(const Database& database, Run& run);

// True if the ring belongs to the run: one file's ring holds the file's newest run only.
bool RingBelongs(const Ring& ring, const Run& run);

// Opens the run that a handle names; a bare path means its newest run, a folder the newest below
// it, a database's URL (postgresql://host/db#training) its newest training. A miss names the ids
// that are there. Of a distributed run the lowest rank's handle means all ranks, another rank's
// that rank alone; `rank` asks for one. A file that is no database, or a folder without any, may be
// a log of another program (engines/runs/import/README.md).
Result<Source> OpenRun(const std::string& handle, const AllowedRoots& roots,
                       const CancelToken& cancel, std::optional<int64_t> rank = std::nullopt);

// The run of a log that was read; `run_id`: absent means the newest.
Result<Source> SourceOfLog(imports::Opened log, std::optional<int64_t> run_id);

// The databases at or below a path: the file itself, or a bounded walk of the folder that follows
// no links to folders and leaves the allowed roots by none. Files are told by their name (.db,
// .sqlite, .sqlite3) and first bytes. Sorted.
struct FoundFiles {
  std::vector<std::string> paths;  // canonical
  std::vector<std::string> notes;  // where the walk ended early
  std::string start;               // what was asked about, canonical
  bool folder = false;             // what was asked about is a folder
};
Result<FoundFiles> FindDatabases(const std::string& path, const AllowedRoots& roots,
                                 const CancelToken& cancel);

}  // namespace mpnanny::runs

template <>
struct mpnanny::Vocabulary<mpnanny::runs::Status> {
  static constexpr const char* kNames[] = {"running", "closed", "exception", "killed"};
};

#endif  // MPNANNY_ENGINES_RUNS_RUN_H_
