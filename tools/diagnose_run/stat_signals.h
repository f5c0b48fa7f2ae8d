// Which `stat:` signals of the case library a run's recorded figures fit.
#ifndef MPNANNY_TOOLS_DIAGNOSE_RUN_STAT_SIGNALS_H_
#define MPNANNY_TOOLS_DIAGNOSE_RUN_STAT_SIGNALS_H_

#include <vector>

#include "base/result.h"
#include "tools/cases/case.h"
#include "tools/diagnose_run/facts.h"
#include "tools/runs/run.h"

namespace mpnanny::diagnose_run {

// Looks at the sampled steps up to the onset (up to the end without one): the last ones and the
// first, within a bound on rows. At the onset's own step only the producer counts: everything
// behind it carries what it made. One hit a signal, the one whose value is greatest (for < and <=
// the least).
Result<std::vector<StatHit>> FindStatSignals(const runs::Source& source, const Facts& facts,
                                             const cases::CaseLibrary& library,
                                             runs::Layers& layers);

// The signals over `step` columns, from the course of the steps: needs no samples.
void FindStepSignals(const cases::CaseLibrary& library, const std::vector<runs::StepRow>& extremes,
                     std::vector<StatHit>& hits);

}  // namespace mpnanny::diagnose_run

#endif  // MPNANNY_TOOLS_DIAGNOSE_RUN_STAT_SIGNALS_H_
