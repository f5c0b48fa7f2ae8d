// A number that a log prints under a name of its own, asked for as metric "log:NAME".
//
// A value of one call, which outlives the question that points into it.
#ifndef MPNANNY_TOOLS_QUERY_STATS_LOG_FIGURE_H_
#define MPNANNY_TOOLS_QUERY_STATS_LOG_FIGURE_H_

#include <memory>
#include <string>

#include "base/result.h"
#include "engines/runs/named_figures.h"
#include "tools/query_stats/question.h"

namespace mpnanny::query_stats {

inline constexpr std::string_view kLogPrefix = "log:";

struct LogFigure {
  std::string shown;  // "log:reward", escaped
  Metric metric;      // of a step; its name is `shown`
  runs::FigureSeries values;
};

// What `asked`, "log:NAME", names in the source's run; of names that differ in capitals alone the
// first. An unknown one is NotFound with the nearest there are.
Result<std::unique_ptr<LogFigure>> FindLogFigure(const runs::Source& source,
                                                 const std::string& asked);

// Its series in the steps that are asked for.
Answer ReadLogFigure(const LogFigure& figure, const Question& question);

}  // namespace mpnanny::query_stats

#endif  // MPNANNY_TOOLS_QUERY_STATS_LOG_FIGURE_H_
