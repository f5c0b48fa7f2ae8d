// Everything that is wrong with the knowledge cases at once, for people who write them: `mpnanny
// knowledge lint` and a test. And the template that `mpnanny knowledge new ID` prints.
//
// Free functions without state; safe from any thread.
#ifndef MPNANNY_ENGINES_CASES_LINT_H_
#define MPNANNY_ENGINES_CASES_LINT_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/data_files.h"
#include "base/result.h"

namespace mpnanny::cases {

struct Problem {
  std::string file;   // "knowledge/cases/x.md"
  std::string what;   // what is wrong, and what to do
  bool note = false;  // true: worth knowing, nothing to repair in this file (a rule or alert that
                      // is not built in)
};

// All problems of all cases and reproductions, by file. Signals of rules and alerts are checked
// only if `data` holds any.
std::vector<Problem> LintCases(const DataFiles& data);

// The text of a new case, ready to be filled in; every field holds a value that lint takes or names
// as missing. Fails if `id` is not kebab-case or is taken.
Result<std::string> CaseTemplate(std::string_view id, const DataFiles& data);

}  // namespace mpnanny::cases

#endif  // MPNANNY_ENGINES_CASES_LINT_H_
