// The distributions of the tensors that a question names, as JSON and as text.
#ifndef MPNANNY_TOOLS_QUERY_STATS_DISTRIBUTION_REPORT_H_
#define MPNANNY_TOOLS_QUERY_STATS_DISTRIBUTION_REPORT_H_

#include "base/result.h"
#include "tools/query_stats/report.h"

namespace mpnanny::query_stats {

// One page of plots: of the layers and kinds asked about, at the last step of the range at which
// their exponents were recorded.
Result<ToolOutput> ReportDistribution(const runs::Source& source, const Question& question,
                                      const ReportOptions& options);

}  // namespace mpnanny::query_stats

#endif  // MPNANNY_TOOLS_QUERY_STATS_DISTRIBUTION_REPORT_H_
