// ui://mpnanny/run: the page of a run as an MCP App, which a client shows beside an answer.
#include "tools/report/page.h"
#include "tools/tool.h"

namespace mpnanny::run_view {
namespace {

constexpr char kView[] = "run";

Result<std::string> Read(const std::string& value, const ToolContext& context) {
  if (value != kView) return NotFound("There is no view of that name.", "ui://mpnanny/run is one.");
  return report::MakeView(context.data);
}

}  // namespace

ResourceTemplate MakeResourceTemplate() {
  ResourceTemplate resource;
  resource.uri_template = "ui://mpnanny/{view}";
  resource.variable = "view";
  resource.name = "run-view";
  resource.title = "View of a run";
  resource.description =
      "What a client with MCP Apps shows beside the answers about runs: curves, layers by steps, "
      "magnitudes.";
  resource.mime_type = "text/html;profile=mcp-app";
  resource.list = [](const ToolContext&) {
    return std::vector<ResourceTemplate::Entry>{{kView, "View of a run", ""}};
  };
  resource.read = Read;
  return resource;
}

}  // namespace mpnanny::run_view
