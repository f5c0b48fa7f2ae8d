// A series in words: its points, its extremes, and which steps of the range it is of.
//
// Free functions without state.
#ifndef MPNANNY_TOOLS_QUERY_STATS_SERIES_TEXT_H_
#define MPNANNY_TOOLS_QUERY_STATS_SERIES_TEXT_H_

#include <string>
#include <vector>

#include "tools/query_stats/question.h"

namespace mpnanny::query_stats {

// "  0: 0  1: 0.0002  32 to 255: 0 (66 points)": points of one value in a row are told once.
std::string PointsText(const std::vector<Point>& points);

// "worst 4 at step 122", "largest 0.002 at step 10" of a figure of which none is worse, "0
// throughout". There must be a finite figure.
std::string ExtremeText(const Metric& metric, const Series& series);

// ", of steps 20 to 42, of which 2 were sampled (41, 42)", for a title; "" where no range was asked
// for.
std::string RangeText(const Question& question, const Answer& answer);

}  // namespace mpnanny::query_stats

#endif  // MPNANNY_TOOLS_QUERY_STATS_SERIES_TEXT_H_
