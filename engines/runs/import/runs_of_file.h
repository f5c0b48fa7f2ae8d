// The records of one file on their way to their steps. Where several runs follow each other in it
// each is kept as a run of its own, with the lines that it stands in.
//
// Owned by one reader; borrows the import.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_RUNS_OF_FILE_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_RUNS_OF_FILE_H_

#include <cstdint>
#include <optional>

#include "engines/runs/import/format.h"
#include "engines/runs/import/placement.h"

namespace mpnanny::imports {

class RunsOfFile {
 public:
  explicit RunsOfFile(Import& into) : into_(into), placement_(std::in_place, into.recorder) {}

  // The record that stands at this line.
  void Add(int64_t line, const Figures& figures);
  // Nothing of the run that is read follows: its last records are at their steps.
  void EndRun() { placement_->Finish(); }
  // What was read so far is a whole run; another begins at that line.
  void BeginRun(int64_t line);
  // The steps are counted anew: what was read so far is kept beside the run under that name.
  void SetAside(const std::string& name);
  // Nothing follows: says what there is to say of the steps, and names all runs.
  void Finish();

 private:
  Import& into_;                        // borrowed
  std::optional<Placement> placement_;  // of the run that is read
  RunOfFile now_;
};

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_RUNS_OF_FILE_H_
