// Static findings in the code of a run: those near the producer's source are evidence about it.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_FACTS_CODE_EVIDENCE_H_
#define MPNANNY_ENGINES_DIAGNOSIS_FACTS_CODE_EVIDENCE_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "engines/call_context.h"
#include "engines/diagnosis/facts/facts.h"

namespace mpnanny::diagnosis {

// Checks the files and folders and fills facts.findings and facts.code_checked. Fails on a path
// that does not exist or may not be read; what is wrong inside the code becomes a limit.
Result<void> CheckCode(const std::vector<std::string>& paths, const ToolContext& context,
                       Facts& facts);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_FACTS_CODE_EVIDENCE_H_
