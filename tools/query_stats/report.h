// An answer about statistics as JSON and as text.
//
// Owned by one call.
#ifndef MPNANNY_TOOLS_QUERY_STATS_REPORT_H_
#define MPNANNY_TOOLS_QUERY_STATS_REPORT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/query_stats/question.h"
#include "tools/tool.h"

namespace mpnanny::query_stats {

struct ReportOptions {
  size_t bytes = kAnswerBytes;        // of each form
  std::optional<int64_t> max_points;  // a series
  std::string cursor;                 // of the page before; "" for the first
  bool all_figures = false;           // no metric was named: other figures stand beside it
  std::vector<std::string> notes;
};

// One page of the answer. Series whose steps were not all looked at are read more closely before
// they are shown.
Result<ToolOutput> Report(const runs::Source& source, const Question& question, Answer& answer,
                          const ReportOptions& options);

// What structuredContent is, of series and of distributions.
Json OutputSchema();

// What the database says that a metric's column means, or what we do.
std::string MeaningOf(const runs::Source& source, const Metric& metric);

}  // namespace mpnanny::query_stats

#endif  // MPNANNY_TOOLS_QUERY_STATS_REPORT_H_
