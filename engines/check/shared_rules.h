// The rule set of a DataFiles, loaded on first use and kept: compiling the queries takes
// milliseconds, an answer less.
//
// Thread-safe. Free function; the cache lives as long as the process and holds a rule set for each
// DataFiles seen (one in the programs, a few in tests).
#ifndef MPNANNY_ENGINES_CHECK_SHARED_RULES_H_
#define MPNANNY_ENGINES_CHECK_SHARED_RULES_H_

#include <memory>

#include "base/data_files.h"
#include "base/result.h"
#include "engines/check/rule_set.h"

namespace mpnanny::check {

// A failure is not kept: it is tried again.
Result<std::shared_ptr<const RuleSet>> SharedRules(const DataFiles& data);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_SHARED_RULES_H_
