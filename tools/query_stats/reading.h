// Reads the series of a question. Few layers are read by seeks on the key (run, step, layer), many
// by whole samples; how many steps are looked at follows from what that costs.
//
// Free functions of one call.
#ifndef MPNANNY_TOOLS_QUERY_STATS_READING_H_
#define MPNANNY_TOOLS_QUERY_STATS_READING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "tools/query_stats/question.h"

namespace mpnanny::query_stats {

// All series that the question asks for, in its order, the first ones with as many points as the
// budget allows. A query that is stopped by its time limit gives what was read.
Result<Answer> AnswerQuestion(const runs::Source& source, const Question& question);

// Reads series of an answer again with more points, where not every step was looked at; the order
// stays. `places`: of the series in the answer.
Result<void> LookCloser(const runs::Source& source, const Question& question,
                        const std::vector<size_t>& places, Answer& answer);

}  // namespace mpnanny::query_stats

#endif  // MPNANNY_TOOLS_QUERY_STATS_READING_H_
