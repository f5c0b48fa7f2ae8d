// Rows of the verdict's table for the loss scale and for the steps that a scaler skips.
//
// Pure functions.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_VERDICT_SCALER_ROWS_H_
#define MPNANNY_ENGINES_DIAGNOSIS_VERDICT_SCALER_ROWS_H_

#include "engines/diagnosis/verdict/ruling.h"

namespace mpnanny::diagnosis {

Answer ScaleCollapsed(const Asked& asked);
Answer ScaleFalls(const Asked& asked);
// More steps were skipped than a search for a scale costs.
Answer ManySkips(const Asked& asked);
// Of a log, whose lines are few of a run's steps.
Answer SkippedInARow(const Asked& asked);
Answer ManyBadGradients(const Asked& asked);
Answer AllSkipped(const Asked& asked);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_VERDICT_SCALER_ROWS_H_
