// A layer's figure over the ranks of a run: least, median and largest at each step, and which ranks
// stand apart.
//
// Free function of one call.
#ifndef MPNANNY_TOOLS_QUERY_STATS_RANKS_REPORT_H_
#define MPNANNY_TOOLS_QUERY_STATS_RANKS_REPORT_H_

#include "base/result.h"
#include "tools/query_stats/question.h"
#include "tools/query_stats/report.h"
#include "tools/tool.h"

namespace mpnanny::query_stats {

Result<ToolOutput> ReportRanks(const runs::Source& source, const Question& question,
                               const ReportOptions& options);

}  // namespace mpnanny::query_stats

#endif  // MPNANNY_TOOLS_QUERY_STATS_RANKS_REPORT_H_
