// A private database in the monitor's schema, filled with what a log says, so that every tool reads
// a log as it reads a monitored run.
//
// The database is SQLite's own temporary file: it has no name, is gone with the object, and holds
// all but a few MB on disk, so that memory does not grow with the log. One owner on one thread.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_RECORDER_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_RECORDER_H_

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "engines/runs/database.h"
#include "engines/runs/import/figure_store.h"
#include "engines/runs/import/statement.h"
#include "engines/runs/import/traceback.h"

namespace mpnanny::imports {

// What a log says of one step; absent where it says nothing. Not finite values stand as they are.
struct StepFigures {
  std::optional<double> at, loss, lr, scale, grad_norm;
  std::optional<double> bad_part;  // a component of the loss that is not finite
  bool skipped = false;
  int64_t line = 0;            // of the file, where that is known
  bool says_its_step = false;  // that line prints the very number of this step
};

// More steps than any run has that people print; the rest of a larger log is not read.
inline constexpr int64_t kMaxSteps = 4'000'000;

class Recorder {
 public:
  static Result<std::unique_ptr<Recorder>> Create(const CancelToken& cancel);

  // Adds to what is known of a step. A later figure wins, but a loss that is not finite is kept:
  // of several ranks that print one step the bad one counts. Full(): nothing more is taken.
  void Put(int64_t step, const StepFigures& figures);
  bool Full() const { return steps_ >= kMaxSteps; }

  // The loss of an evaluation after that step, under the log's name for it
  // (engines/runs/evaluations.h reads them).
  void PutEvaluation(int64_t step, std::string_view name, double loss);
  // Every number that the log prints under a name, at the step that it belongs to.
  FigureStore& figures() { return figures_; }
  int64_t evaluations() const { return evaluations_; }

  // Words of the log that report a fault (spoken.h).
  void PutWord(std::string_view fault, int64_t line, std::string_view text);

  // The exception that ended the training, at the last step.
  void PutException(const PrintedError& error);

  // The steps from `step` on are to be told anew: what was known of them becomes a run of its own,
  // with the steps before it (the last 2,000), as far as there are few such.
  void GoBack(int64_t step);

  // What was put so far is a whole run of a source that holds several, and the next begins: it gets
  // the number that is given back. (The last run that is put is the first.)
  int64_t KeepAsRun(const std::string& name);

  std::optional<int64_t> last_step() const { return last_; }
  // What is known of the last step.
  const StepFigures& last() const { return current_; }
  int64_t steps() const { return steps_; }
  int64_t went_back() const { return went_back_; }
  bool ended_with_exception() const { return ended_with_exception_; }
  const CancelToken& cancel() const { return cancel_; }

  // For formats that need more than steps: the open database, writable.
  sqlite3* handle() { return handle_.get(); }

  struct About {
    std::string path, name, precision;
    double started_at = 0;           // Unix seconds; 0: not known
    std::optional<double> ended_at;  // absent: as started_at
    std::vector<std::string> notes;
  };
  // Gradient norms that follow the scale are divided by it (they were printed scaled); appends
  // what was done to `about.notes`. Then the database is as one that was opened for reading.
  Result<std::unique_ptr<runs::Database>> Finish(About& about);

 private:
  explicit Recorder(CancelToken cancel) : cancel_(std::move(cancel)) {}
  void Flush();
  Result<void> WriteRuns(const About& about);

  struct Close {
    void operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
  };
  CancelToken cancel_;
  std::unique_ptr<sqlite3, Close> handle_;
  void PutEvent(int64_t step, std::string_view type, std::string_view detail);

  Writer put_, put_event_;  // after handle_: they go first
  FigureStore figures_;     // as well
  std::optional<int64_t> last_, at_step_;
  StepFigures current_;  // of last_
  StepFigures pending_;  // of at_step_, not yet written
  bool dirty_ = false;
  int64_t steps_ = 0, went_back_ = 0, kept_attempts_ = 0, evaluations_ = 0;
  bool ended_with_exception_ = false;
  std::map<int64_t, std::string> names_;  // of runs that were kept, by number
  std::set<int64_t> with_exception_;      // of these
  std::vector<int64_t> attempts_;         // what stood before the log went back
  int64_t words_ = 0;
  std::optional<Error> failed_;
};

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_RECORDER_H_
