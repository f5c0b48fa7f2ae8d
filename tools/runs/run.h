// A monitored run: what its row says, whether it still goes on, and how a handle or a folder leads
// to it.
//
// Plain values and free functions; a Source belongs to one call on one thread.
#ifndef MPNANNY_TOOLS_RUNS_RUN_H_
#define MPNANNY_TOOLS_RUNS_RUN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/files.h"
#include "base/result.h"
#include "base/run_handle.h"
#include "tools/runs/database.h"
#include "tools/runs/ring.h"

namespace mpnanny::runs {

enum class Status { kRunning, kClosed, kException, kKilled };
const char* StatusName(Status status);  // "running", "closed", "exception", "killed"

struct Run {
  RunHandle handle;  // canonical path and id
  std::string name;  // raw; show it through EscapeControl
  std::optional<int64_t> parent;
  int64_t rank = 0, world_size = 1;
  double started_at = 0;  // Unix seconds
  std::optional<double> heartbeat_at, ended_at;
  std::string end_reason;  // "" if none was written
  std::string precision;   // "" if not known
  std::optional<int64_t> trace_interval;
  std::string environment, notes;  // JSON as written; "" if absent or too large
  Status status = Status::kKilled;
};

// Everything about one run that an engine reads from: its database, its row, and its ring (empty if
// the file's ring belongs to another run).
struct Source {
  std::unique_ptr<Database> database;
  Run run;
  Ring ring;
  std::vector<std::string> notes;  // what limits the reading: a missing -wal, a damaged ring …
};

// All runs of a database, newest first (by start, then id).
Result<std::vector<Run>> ReadRuns(const Database& database, const Ring& ring);

// Opens the run that a handle names; a bare path means the newest run. A miss names the ids that
// are there.
Result<Source> OpenRun(const std::string& handle, const AllowedRoots& roots,
                       const CancelToken& cancel);

// The databases at or below a path: the file itself, or a bounded walk of the folder that follows
// no links to folders and leaves the allowed roots by none. Files are told by their name (.db,
// .sqlite, .sqlite3) and first bytes. Sorted.
struct FoundFiles {
  std::vector<std::string> paths;  // canonical
  std::vector<std::string> notes;  // where the walk ended early
};
Result<FoundFiles> FindDatabases(const std::string& path, const AllowedRoots& roots,
                                 const CancelToken& cancel);

}  // namespace mpnanny::runs

#endif  // MPNANNY_TOOLS_RUNS_RUN_H_
