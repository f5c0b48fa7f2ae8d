// Opens whatever records a run: the monitor's database, the earlier Python monitor's, or a log that
// another program wrote (README.md lists the formats).
//
// Free functions; what they return belongs to one call on one thread.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_OPEN_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_OPEN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "engines/runs/database.h"
#include "engines/runs/import/run_of_file.h"

namespace mpnanny::imports {

struct Opened {
  std::unique_ptr<runs::Database> database;
  std::string format;              // "" for a database; else "TensorBoard event files", …
  std::vector<std::string> notes;  // what was read and what limits it
  std::vector<std::string> texts;  // canonical paths of console output that belongs to the run
  bool numbered = true;            // false: steps are lines, counted from 0
  bool of_players = false;         // the losses are of two players that learn by each other
  std::string counts;              // of a log: "figures stand in 12 of 30 lines"
  std::vector<RunOfFile> runs;     // where several follow each other, in the file's order
};

// The log that `path` (canonical and allowed) is: a file, or a folder that is one run's log;
// nullopt if no format fits. A log without any figure is an error that says what there was; with
// `even_without_steps` it is none.
Result<std::optional<Opened>> OpenLog(const std::string& path, const CancelToken& cancel,
                                      bool even_without_steps = false);

// The folders at or below `folder` (canonical and allowed) that are each one run's log, nearest
// first; found by names and without reading them.
struct FoundLog {
  std::string path;  // canonical: what OpenLog() takes
  int64_t bytes = 0;
};
struct FoundLogs {
  std::vector<FoundLog> logs;
  bool ended_early = false;  // there are more folders than are looked at
};
Result<FoundLogs> FindLogs(const std::string& folder, const CancelToken& cancel);

// Whether a file is the database of another program that is read as a log.
bool IsDatabaseOfLog(const std::string& path);

// A monitor's database, or else a log; the error of what is neither is that of Database::Open.
Result<Opened> OpenFile(const std::string& path, const CancelToken& cancel);

// A log as text: console output that was pasted.
Result<Opened> OpenText(std::string_view text, const std::string& name, const CancelToken& cancel);

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_OPEN_H_
