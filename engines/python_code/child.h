// Runs a tool's Python side, which runs code of the user's, in the user's Python within the limits
// of mpnanny-sandbox.
//
// One call, one process; it is gone when the function returns. Safe from any thread.
#ifndef MPNANNY_ENGINES_PYTHON_CODE_CHILD_H_
#define MPNANNY_ENGINES_PYTHON_CODE_CHILD_H_

#include <string>
#include <vector>

#include "base/confinement.h"
#include "base/json.h"
#include "base/result.h"
#include "engines/call_context.h"
#include "engines/python_code/question.h"

namespace mpnanny::python_code {

// The answer of the Python side. What the target's code does, whatever it is, ends in an error that
// says what and, where it printed something last, what.
// `schema`: of an answer of this tool.
Result<Json> RunChild(const Question& question, const Json& schema, const ToolContext& context);

// What this machine cannot keep such code from, as mpnanny-sandbox beside `program` finds out.
Result<std::vector<Lack>> FindLacks(const std::string& program);

// The error of a server that may not run code: `tool` "auto_diff", `command` "diff". It has the
// very line that the client's file needs.
Error MayNotRun(const std::string& tool, const std::string& command, const ToolContext& context);

}  // namespace mpnanny::python_code

#endif  // MPNANNY_ENGINES_PYTHON_CODE_CHILD_H_
