// Single steps of a run, by seeks: what a question asks that looks at some steps of many.
//
// Belongs to one call and must not outlive its Source.
#ifndef MPNANNY_ENGINES_RUNS_STEP_READER_H_
#define MPNANNY_ENGINES_RUNS_STEP_READER_H_

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "engines/runs/run.h"
#include "engines/runs/step_cursor.h"
#include "engines/runs/steps.h"

namespace mpnanny::runs {

class StepReader {
 public:
  static Result<StepReader> Create(const Source& source);

  // The first step at or after this one, merged over the ranks as ForEachStep() does it; nullopt
  // after the last.
  Result<std::optional<StepRow>> From(int64_t step);
  // The number of the last step at or before this one.
  Result<std::optional<int64_t>> UpTo(int64_t step) const;

 private:
  StepReader(const Source& source, StepCursor cursor)
      : source_(&source), cursor_(std::move(cursor)) {}
  const Source* source_;
  StepCursor cursor_;  // of a single rank
};

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_STEP_READER_H_
