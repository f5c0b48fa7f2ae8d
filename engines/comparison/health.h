// What diagnose_run says of a run alone, as far as a comparison needs it.
//
// Free function.
#ifndef MPNANNY_ENGINES_COMPARISON_HEALTH_H_
#define MPNANNY_ENGINES_COMPARISON_HEALTH_H_

#include "base/result.h"
#include "engines/call_context.h"
#include "engines/comparison/mend.h"
#include "engines/runs/run.h"

namespace mpnanny::comparison {

Result<RunHealth> HealthOf(const runs::Source& source, const ToolContext& context);

}  // namespace mpnanny::comparison

#endif  // MPNANNY_ENGINES_COMPARISON_HEALTH_H_
