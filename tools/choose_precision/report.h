// The plan as text and as structuredContent.
//
// Free functions without state. `answer` is what the Python side gave (docs/choose_precision.md);
// texts of the user's files are escaped here.
#ifndef MPNANNY_TOOLS_CHOOSE_PRECISION_REPORT_H_
#define MPNANNY_TOOLS_CHOOSE_PRECISION_REPORT_H_

#include <cstddef>
#include <string>

#include "base/json.h"

namespace mpnanny::choose_precision {

// `library`: whose code is shown; "all" for that of every library. Both within `bytes`.
Json ReportJson(const Json& answer, const std::string& library, size_t bytes);
std::string ReportText(const Json& answer, const std::string& library, size_t bytes);

// "BF16 autocast" of "bf16-autocast".
std::string WayText(const std::string& way);

Json ReportSchema();
// What an answer that comes from outside has to fit.
const Json& AnswerSchema();

}  // namespace mpnanny::choose_precision

#endif  // MPNANNY_TOOLS_CHOOSE_PRECISION_REPORT_H_
