// The steps of one rank, or of all ranks merged, one after the other: what ForEachStep() stands on.
//
// A cursor belongs to one call and must not outlive its Source.
#ifndef MPNANNY_ENGINES_RUNS_STEP_CURSOR_H_
#define MPNANNY_ENGINES_RUNS_STEP_CURSOR_H_

#include <optional>
#include <vector>

#include "base/result.h"
#include "engines/runs/rank_layers.h"
#include "engines/runs/run.h"
#include "engines/runs/steps.h"

namespace mpnanny::runs {

// One database and its flight recorder, in ascending order of step.
class StepCursor {
 public:
  static Result<StepCursor> Open(const Database& database, const Run& run, const Ring& ring,
                                 const StepRange& range);
  // The next step, which stays as it is until the next call; null at the end.
  Result<const StepRow*> Next();
  // Begins again with another range of the same run.
  void Seek(const Ring& ring, const StepRange& range);

 private:
  using Slot = std::vector<RingStep>::const_iterator;
  explicit StepCursor(Statement rows) : rows_(std::move(rows)) {}

  Statement rows_;
  Slot slot_, end_;          // of the ring, inside the range
  StepRow row_, from_ring_;  // what is read is filled in place: a long run has millions
  bool waiting_ = false;     // row_ comes after the ring's and was not given yet
  bool ended_ = false;       // the database's rows
};

// The ranks of a Source: each step once. The loss is the mean over the ranks that logged one, and
// not finite if one of them was not; scale, lr and moves of the scale are the first rank's that
// knows them; flags say what any rank saw.
class MergedSteps {
 public:
  static Result<MergedSteps> Open(const Source& source, const StepRange& range);
  Result<const StepRow*> Next();  // as above

 private:
  explicit MergedSteps(const Source& source) : source_(source), layers_(source) {}
  Result<const StepRow*> NextOfTraining();
  Result<void> Advance(size_t part);
  Result<void> Take(int64_t step);

  const Source& source_;  // borrowed
  RankLayers layers_;
  std::vector<StepCursor> cursors_;    // the deciding rank's, then the others'
  std::vector<const StepRow*> heads_;  // next row of each, its cursor's; null: none is left
  StepRow merged_;
  std::optional<Statement> of_training_;  // in the cursors' place: merged where they lie
};

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_STEP_CURSOR_H_
