// A static_check answer as SARIF 2.1.0, for code-scanning services and editors.
//
// Free function without state.
#ifndef MPNANNY_TOOLS_STATIC_CHECK_SARIF_H_
#define MPNANNY_TOOLS_STATIC_CHECK_SARIF_H_

#include <string>

#include "base/json.h"

namespace mpnanny::static_check {

// `structured`: what the tool answers (DESIGN: findings with rule, severity, path, positions,
// edits). Columns are code points, as the run's columnKind says.
std::string ToSarif(const Json& structured);

}  // namespace mpnanny::static_check

#endif  // MPNANNY_TOOLS_STATIC_CHECK_SARIF_H_
