// The pass over all steps that a diagnosis makes, of a monitored run or of a log: what it counts,
// how loss, gradient norm and loss scale went, and where they turn.
//
// Owned by one call; its memory does not grow with the run.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_FACTS_STEP_PASS_H_
#define MPNANNY_ENGINES_DIAGNOSIS_FACTS_STEP_PASS_H_

#include "base/cancel.h"
#include "base/result.h"
#include "engines/diagnosis/facts/block_series.h"
#include "engines/diagnosis/facts/facts.h"
#include "engines/diagnosis/facts/step_course.h"
#include "engines/runs/run.h"

namespace mpnanny::diagnosis {

class StepPass {
 public:
  // After `limit` the steps that were seen by then must do: limits say so.
  explicit StepPass(CancelToken::Clock::duration limit) : limit_(limit) {}

  // First of all. Fills the summary's figures of steps, turns, and what StepCourse tells.
  Result<void> Read(const runs::Source& source, Facts& facts);
  const StepCourse& course() const { return course_; }
  const BlockSeries& losses() const { return losses_; }

 private:
  const CancelToken::Clock::duration limit_;
  StepCourse course_;
  BlockSeries losses_;
};

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_FACTS_STEP_PASS_H_
