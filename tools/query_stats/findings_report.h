// What shadow steps found, in the shape of query_stats: a series a finding.
//
// Free function of one call.
#ifndef MPNANNY_TOOLS_QUERY_STATS_FINDINGS_REPORT_H_
#define MPNANNY_TOOLS_QUERY_STATS_FINDINGS_REPORT_H_

#include "base/result.h"
#include "tools/query_stats/question.h"
#include "tools/query_stats/report.h"
#include "tools/tool.h"

namespace mpnanny::query_stats {

// One page, worst first; the question's layers, steps and `top` count.
Result<ToolOutput> ReportFindings(const runs::Source& source, const Question& question,
                                  const ReportOptions& options);

}  // namespace mpnanny::query_stats

#endif  // MPNANNY_TOOLS_QUERY_STATS_FINDINGS_REPORT_H_
