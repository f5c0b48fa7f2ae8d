// The answer as text and as structuredContent.
//
// Free functions without state. `answer` is what the Python side gave, in the shape of the schema;
// texts of the user's files are escaped here.
#ifndef MPNANNY_TOOLS_AUTO_DIFF_REPORT_H_
#define MPNANNY_TOOLS_AUTO_DIFF_REPORT_H_

#include <cstddef>
#include <string>

#include "base/json.h"

namespace mpnanny::auto_diff {

// Both within `bytes`; what is left out is counted.
Json ReportJson(const Json& answer, size_t bytes);
std::string ReportText(const Json& answer, size_t bytes);

Json ReportSchema();
// What an answer that comes from outside has to fit.
const Json& AnswerSchema();

}  // namespace mpnanny::auto_diff

#endif  // MPNANNY_TOOLS_AUTO_DIFF_REPORT_H_
