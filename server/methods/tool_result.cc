#include "server/methods/tool_result.h"

#include <utility>

#include "base/base64.h"
#include "base/log.h"
#include "server/protocol/error_codes.h"

namespace mpnanny {
namespace {

Json TextContent(const std::string& text) {
  return Json::array({{{"type", "text"}, {"text", text}}});
}

}  // namespace

Json ErrorToolResult(const std::string& text) {
  return {{"content", TextContent(text)}, {"isError", true}};
}

Outcome ToolOutcome(const std::string& tool, Result<ToolOutput> result, const CancelToken& cancel) {
  if (result) {
    Json content = TextContent(result->text);
    if (result->picture) {
      content.push_back({{"type", "image"},
                         {"data", EncodeBase64(result->picture->png)},
                         {"mimeType", "image/png"}});
      content.push_back({{"type", "text"}, {"text", "The picture: " + result->picture->shows}});
    }
    return MethodResult{{{"content", std::move(content)},
                         {"structuredContent", std::move(result->structured)}}};
  }
  const Error& error = result.error();
  if (error.kind == ErrorKind::kCancelled && cancel.cancelled()) return Stopped{};
  if (error.kind == ErrorKind::kInternal) {
    const std::string log_id = LogError(tool + ": " + error.Text());
    return WireError{kInternalError, tool + " failed by an internal error (" + log_id +
                                         "); the server's stderr has the details."};
  }
  return MethodResult{ErrorToolResult(error.Text())};
}

}  // namespace mpnanny
