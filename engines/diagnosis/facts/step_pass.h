// The pass over all steps that a diagnosis makes, of a monitored run or of a log: what it counts,
// how loss, gradient norm and loss scale went, where they turn, and which `step` signals fit.
//
// Owned by one call; memory does not grow with the run.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_FACTS_STEP_PASS_H_
#define MPNANNY_ENGINES_DIAGNOSIS_FACTS_STEP_PASS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "engines/cases/case.h"
#include "engines/diagnosis/facts/facts.h"
#include "engines/diagnosis/facts/stat_signals.h"
#include "engines/diagnosis/facts/step_course.h"
#include "engines/runs/run.h"

namespace mpnanny::diagnosis {

class StepPass {
 public:
  // `library` is borrowed. After `limit` the steps that were seen by then must do: limits say so.
  explicit StepPass(const cases::CaseLibrary& library,
                    CancelToken::Clock::duration limit = runs::kPassTime)
      : library_(library), limit_(limit) {}

  // First of all. `first_error`: the step of the first alert about a value that is not finite, the
  // greatest number there is without one. Fills the summary's figures of steps, turns, and what
  // StepCourse tells.
  Result<void> Read(const runs::Source& source, int64_t first_error, Facts& facts);
  const StepCourse& course() const { return seen_->course; }

  // Adds the `step` signals that fit up to the onset, once that is known: what comes after it is no
  // precursor. Reads the steps again only where the onset is not where Read() saw it coming.
  Result<void> TakeSignals(const runs::Source& source, Facts& facts);

 private:
  struct StepFigures {
    summary::Summary summary;
    StepCourse course;
    Turns turns;
    std::vector<StatHit> hits;  // up to last_offered
    int64_t last_offered = 0;   // to the signals
  };
  Result<StepFigures> ReadAll(const runs::Source& source, int64_t first_error) const;

  const cases::CaseLibrary& library_;
  const CancelToken::Clock::duration limit_;
  std::shared_ptr<const StepFigures> seen_;
};

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_FACTS_STEP_PASS_H_
