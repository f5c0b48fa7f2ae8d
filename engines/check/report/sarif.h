// A static_check answer as SARIF 2.1.0, for code-scanning services and editors.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_CHECK_REPORT_SARIF_H_
#define MPNANNY_ENGINES_CHECK_REPORT_SARIF_H_

#include <string>

#include "base/json.h"
#include "engines/check/rule_set.h"

namespace mpnanny::check {

// `structured`: the whole of what the tool answers (DESIGN: findings with rule, severity, path,
// positions, edits; with their source lines). `rules` say what the rules mean; null where they
// could not be read. Columns are code points, as the run's columnKind says. A finding in a notebook
// has its cell as a logical location and no region: SARIF's lines would be those of the JSON.
std::string ToSarif(const Json& structured, const RuleSet* rules);

// The same as commands that GitHub's runners turn into annotations, one a line.
std::string ToGithub(const Json& structured);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_REPORT_SARIF_H_
