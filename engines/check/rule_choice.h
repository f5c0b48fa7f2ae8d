// Which rules run on a file, and how severe each of them is there.
//
// Free function and plain structs.
#ifndef MPNANNY_ENGINES_CHECK_RULE_CHOICE_H_
#define MPNANNY_ENGINES_CHECK_RULE_CHOICE_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engines/check/engine.h"
#include "engines/check/rule_set.h"

namespace mpnanny::check {

// Both by index of the rule set.
struct RuleChoice {
  std::vector<bool> wanted;
  std::vector<Severity> severity;
};

// What the caller asks for goes over what the project asks for (`policy` may be null): with
// options.rules the project's own choice of rules does not count. Unknown ids in `options` are an
// error; "all" stands for every rule.
Result<RuleChoice> ChooseRules(const Options& options, const ProjectPolicy* policy,
                               const RuleSet& rules);

// True if the list has the id.
bool NamesRule(const std::vector<std::string>& list, std::string_view rule);

// Which rules' candidates count in `source`: all but those that the call, the project or the file
// ignores, and of those that the call names only these. Borrows both.
std::function<bool(std::string_view rule)> CandidateChoice(const Options& options,
                                                           const Source& source);

// `choice` without the rules that `source` leaves out.
RuleChoice WithoutIgnored(RuleChoice choice, const Source& source, const RuleSet& rules);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_RULE_CHOICE_H_
