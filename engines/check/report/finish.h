// From what the rules reported on a unit to what a user reads: findings where it is certain,
// candidates where it is not; positions, page texts, suppression comments.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_CHECK_REPORT_FINISH_H_
#define MPNANNY_ENGINES_CHECK_REPORT_FINISH_H_

#include <array>
#include <string>
#include <vector>

#include "engines/check/report/suppressions.h"
#include "engines/check/rule_choice.h"
#include "engines/check/rule_set.h"
#include "engines/check/unit.h"

namespace mpnanny::check {

struct Finished {
  std::vector<Finding> findings;      // in order of rule and place
  std::vector<Candidate> candidates;  // what is no error and no warning: the text does not prove it
  int suppressed = 0;
  int not_kept = 0;
  std::array<int, 3> counts = {};  // by Severity
};

// Takes the raw findings of `unit` whose rule is wanted there; of several by one rule on one node
// the first. `index`: of its text. `options` say which of them to keep and to show.
Finished Finish(const Unit& unit, const TextIndex& index, std::vector<RawFinding> raw,
                const RuleSet& rules, const RuleChoice& choice, const Options& options,
                Suppressions& suppressions);

// A note for each comment of `unit` that silenced nothing, unless its rule did not run at all.
void NoteUnused(const Unit& unit, const Suppressions& suppressions, const RuleSet& rules,
                const RuleChoice& choice, std::vector<std::string>* notes);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_REPORT_FINISH_H_
