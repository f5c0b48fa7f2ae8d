// Runs the comparison in the user's Python, within the limits of mpnanny-sandbox.
//
// One call, one process; it is gone when the function returns. Safe from any thread.
#ifndef MPNANNY_TOOLS_AUTO_DIFF_CHILD_H_
#define MPNANNY_TOOLS_AUTO_DIFF_CHILD_H_

#include "base/json.h"
#include "base/result.h"
#include "tools/auto_diff/question.h"
#include "tools/tool.h"

namespace mpnanny::auto_diff {

// The answer of the Python side. What the target's code does, whatever it is, ends in an error that
// says what and, where it printed something last, what.
Result<Json> RunChild(const Question& question, const ToolContext& context);

}  // namespace mpnanny::auto_diff

#endif  // MPNANNY_TOOLS_AUTO_DIFF_CHILD_H_
