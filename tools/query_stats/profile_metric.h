// Reads a metric of the profiles that shadow steps left: a figure a layer and direction.
//
// Free function of one call.
#ifndef MPNANNY_TOOLS_QUERY_STATS_PROFILE_METRIC_H_
#define MPNANNY_TOOLS_QUERY_STATS_PROFILE_METRIC_H_

#include "base/result.h"
#include "tools/query_stats/question.h"

namespace mpnanny::query_stats {

// Series in the order of their keys; of several ranks the largest figure counts. Shadow steps are
// few: all are read, or of very many as many, spread evenly, as an answer has time for.
Result<Answer> ReadProfileMetric(const runs::Source& source, const Question& question,
                                 const Blocks& blocks);

}  // namespace mpnanny::query_stats

#endif  // MPNANNY_TOOLS_QUERY_STATS_PROFILE_METRIC_H_
