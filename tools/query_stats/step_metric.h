// Reads a metric of the steps themselves: loss, learning rate, loss scale …
//
// Free function of one call.
#ifndef MPNANNY_TOOLS_QUERY_STATS_STEP_METRIC_H_
#define MPNANNY_TOOLS_QUERY_STATS_STEP_METRIC_H_

#include "base/result.h"
#include "tools/query_stats/question.h"

namespace mpnanny::query_stats {

// One series, or none if no step of the range has the figure. Of a long run steps spread evenly,
// those next to alerts, and all near the extreme and the first non-finite value.
Result<Answer> ReadStepMetric(const runs::Source& source, const Question& question);

}  // namespace mpnanny::query_stats

#endif  // MPNANNY_TOOLS_QUERY_STATS_STEP_METRIC_H_
