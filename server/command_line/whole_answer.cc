#include "server/command_line/whole_answer.h"

#include <string>

#include "tools/call.h"

namespace mpnanny {
namespace {

// Lists that go on where the page before ended: `more` is appended to `whole`. Other fields are
// those of the first page.
void AppendPage(Json& whole, const Json& more) {
  for (const auto& [name, value] : more.items()) {
    if (value.is_array() && whole.contains(name) && whole[name].is_array() &&
        whole[name] != value) {
      whole[name].insert(whole[name].end(), value.begin(), value.end());
    }
  }
}

}  // namespace

Result<ToolOutput> CallWhole(const Tool& tool, const Json& arguments, const ToolContext& context) {
  Result<ToolOutput> output = CallTool(tool, arguments, context);
  constexpr int kMostPages = 100000;  // a tool that never ends its pages must not hang the command
  std::string cursor = output ? output->structured.value("next_cursor", "") : "";
  for (int page = 1; !cursor.empty() && page < kMostPages; ++page) {
    Json next = arguments;
    next["cursor"] = cursor;
    Result<ToolOutput> more = CallTool(tool, next, context);
    if (!more) return more;
    AppendPage(output->structured, more->structured);
    output->text += "\n" + more->text;
    cursor = more->structured.value("next_cursor", "");
  }
  if (output) output->structured.erase("next_cursor");
  return output;
}

}  // namespace mpnanny
