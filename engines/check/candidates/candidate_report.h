// Candidates as JSON and as text, page by page, each within a number of bytes.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_CHECK_CANDIDATES_CANDIDATE_REPORT_H_
#define MPNANNY_ENGINES_CHECK_CANDIDATES_CANDIDATE_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "engines/call_context.h"
#include "engines/check/engine.h"

namespace mpnanny::check {

// The candidates from number `first` on, as many as fit; at least one, at most `most`.
ToolOutput ShowCandidates(const Report& report, size_t first, size_t answer_bytes,
                          size_t most = SIZE_MAX);

// The same for a terminal, from the structured answer.
std::string CandidatesText(const Json& structured);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_CANDIDATES_CANDIDATE_REPORT_H_
