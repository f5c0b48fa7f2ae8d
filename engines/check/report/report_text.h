// A report as JSON and as text, page by page, each within a number of bytes.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_CHECK_REPORT_REPORT_TEXT_H_
#define MPNANNY_ENGINES_CHECK_REPORT_REPORT_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "engines/call_context.h"
#include "engines/check/engine.h"

namespace mpnanny::check {

// The findings from number `first` on, as many as fit; at least one, at most `most`. `full`: every
// finding tells why and fix, else only the first of its rule does. `next_cursor` is set where
// findings are left.
ToolOutput ShowReport(const Report& report, size_t first, bool full, size_t answer_bytes,
                      size_t most = SIZE_MAX);

// "7 places to judge, which the text does not decide".
std::string ToJudgeText(const Json& count);

// The first of the report's notes, as they can be shown: for answers that need their room
// otherwise.
Json FirstNotes(const Report& report);

// What a check has found that still goes on: the first page, which draws no conclusion.
ToolOutput ShowUnfinished(Report report, size_t answer_bytes);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_REPORT_REPORT_TEXT_H_
