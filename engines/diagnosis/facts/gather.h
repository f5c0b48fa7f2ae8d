// Gathers the facts of a monitored run.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_FACTS_GATHER_H_
#define MPNANNY_ENGINES_DIAGNOSIS_FACTS_GATHER_H_

#include "base/cancel.h"
#include "base/result.h"
#include "engines/diagnosis/facts/facts.h"
#include "engines/runs/run.h"

namespace mpnanny::diagnosis {

// `limit`: of the pass over all steps. Facts of a run that nobody writes any more are remembered.
Result<Facts> GatherRun(const runs::Source& source, CancelToken::Clock::duration limit);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_FACTS_GATHER_H_
