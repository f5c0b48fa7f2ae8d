// The whole answer of a tool that answers by pages.
//
// A free function without state.
#ifndef MPNANNY_SERVER_COMMAND_LINE_WHOLE_ANSWER_H_
#define MPNANNY_SERVER_COMMAND_LINE_WHOLE_ANSWER_H_

#include "base/json.h"
#include "base/result.h"
#include "tools/tool.h"

namespace mpnanny {

// Calls the tool and, where it still answers by pages, again for each further one.
Result<ToolOutput> CallWhole(const Tool& tool, const Json& arguments, const ToolContext& context);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_COMMAND_LINE_WHOLE_ANSWER_H_
