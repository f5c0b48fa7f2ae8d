// The answer of compare_logprobs as structuredContent and as text.
//
// Free functions without state.
#ifndef MPNANNY_TOOLS_COMPARE_LOGPROBS_REPORT_H_
#define MPNANNY_TOOLS_COMPARE_LOGPROBS_REPORT_H_

#include <cstddef>
#include <string>

#include "base/json.h"
#include "engines/mismatch/finding.h"

namespace mpnanny::compare_logprobs {

struct Asked {
  std::string of;  // run handle or file, as answers show it
  bool chinese_too = false;
};

Json ReportJson(const Asked& asked, const mismatch::Calls& calls,
                const mismatch::Judgement& judgement, size_t bytes);
std::string ReportText(const Json& report, size_t bytes);
Json ReportSchema();

}  // namespace mpnanny::compare_logprobs

#endif  // MPNANNY_TOOLS_COMPARE_LOGPROBS_REPORT_H_
