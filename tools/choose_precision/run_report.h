// A plan from a recorded run as text and as structuredContent (schema: report.h).
//
// Free functions without state; texts of the database are escaped here.
#ifndef MPNANNY_TOOLS_CHOOSE_PRECISION_RUN_REPORT_H_
#define MPNANNY_TOOLS_CHOOSE_PRECISION_RUN_REPORT_H_

#include <cstddef>
#include <string>

#include "base/json.h"
#include "tools/choose_precision/device.h"
#include "tools/choose_precision/recorded.h"
#include "tools/choose_precision/run_plan.h"

namespace mpnanny::choose_precision {

// `run`: its handle, shown. Both within `bytes`.
Json RunPlanJson(const std::string& run, const Recorded& recorded, const Device& device,
                 const RunPlan& plan, size_t bytes);
std::string RunPlanText(const std::string& run, const Recorded& recorded, const Device& device,
                        const RunPlan& plan, size_t bytes);

}  // namespace mpnanny::choose_precision

#endif  // MPNANNY_TOOLS_CHOOSE_PRECISION_RUN_REPORT_H_
