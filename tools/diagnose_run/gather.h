// Gathers the facts of a monitored run.
#ifndef MPNANNY_TOOLS_DIAGNOSE_RUN_GATHER_H_
#define MPNANNY_TOOLS_DIAGNOSE_RUN_GATHER_H_

#include "base/cancel.h"
#include "base/result.h"
#include "tools/cases/case.h"
#include "tools/diagnose_run/facts.h"
#include "tools/runs/run.h"

namespace mpnanny::diagnose_run {

// `library`: whose `stat:` signals are looked for in the samples; `limit`: of the pass over all
// steps.
Result<Facts> GatherRun(const runs::Source& source, const cases::CaseLibrary& library,
                        CancelToken::Clock::duration limit);

}  // namespace mpnanny::diagnose_run

#endif  // MPNANNY_TOOLS_DIAGNOSE_RUN_GATHER_H_
