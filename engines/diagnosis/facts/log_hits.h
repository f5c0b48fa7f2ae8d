// What console output says in words: lines that fit a case's `log:` signals. Its figures are read
// by engines/runs/import.
//
// The text is data from outside: bounded and never executed. Free functions.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_FACTS_LOG_HITS_H_
#define MPNANNY_ENGINES_DIAGNOSIS_FACTS_LOG_HITS_H_

#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "engines/cases/case.h"
#include "engines/diagnosis/facts/facts.h"
#include "engines/runs/import/byte_source.h"
#include "engines/runs/whole_run.h"

namespace mpnanny::diagnosis {

// The best line for each signal of the library, added to `hits`. Fails only when the call is
// stopped.
Result<void> FindLogHits(imports::ByteSource text, const cases::CaseLibrary& library,
                         const CancelToken& cancel, std::vector<LogHit>& hits);

// The facts of a run without monitor: what a monitored one would have from its steps alone.
Result<Facts> GatherLog(const runs::Source& source, std::vector<LogHit> hits,
                        CancelToken::Clock::duration limit = runs::kPassTime);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_FACTS_LOG_HITS_H_
