// Why a question about statistics has no series as its answer, for people.
//
// Free function without state.
#ifndef MPNANNY_TOOLS_QUERY_STATS_WHY_NOTHING_H_
#define MPNANNY_TOOLS_QUERY_STATS_WHY_NOTHING_H_

#include <string>

#include "tools/query_stats/question.h"

namespace mpnanny::query_stats {

// `answer` has no series.
std::string WhyNothing(const Question& question, const Answer& answer);

}  // namespace mpnanny::query_stats

#endif  // MPNANNY_TOOLS_QUERY_STATS_WHY_NOTHING_H_
