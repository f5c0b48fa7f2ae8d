// What diagnose_run says of a run alone, as far as a comparison needs it.
//
// Free function.
#ifndef MPNANNY_TOOLS_COMPARE_RUNS_HEALTH_H_
#define MPNANNY_TOOLS_COMPARE_RUNS_HEALTH_H_

#include "base/result.h"
#include "tools/compare_runs/mend.h"
#include "tools/runs/run.h"
#include "tools/tool.h"

namespace mpnanny::compare_runs {

Result<Health> HealthOf(const runs::Source& source, const ToolContext& context);

}  // namespace mpnanny::compare_runs

#endif  // MPNANNY_TOOLS_COMPARE_RUNS_HEALTH_H_
