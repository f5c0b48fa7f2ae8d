// From what the rules reported on a unit to the findings that a user reads: positions, page texts,
// suppression comments.
//
// Free functions without state.
#ifndef MPNANNY_TOOLS_STATIC_CHECK_FINISH_H_
#define MPNANNY_TOOLS_STATIC_CHECK_FINISH_H_

#include <vector>

#include "tools/static_check/rule_set.h"
#include "tools/static_check/unit.h"

namespace mpnanny::static_check {

struct Finished {
  std::vector<Finding> findings;  // in order of rule and place
  int suppressed = 0;
};

// Takes the raw findings of `unit` whose rule is `wanted` (by index of the rule set) and at least
// of that severity; of several by one rule on one node the first.
Finished Finish(const Unit& unit, std::vector<RawFinding> raw, const RuleSet& rules,
                const std::vector<bool>& wanted, Severity min_severity);

}  // namespace mpnanny::static_check

#endif  // MPNANNY_TOOLS_STATIC_CHECK_FINISH_H_
