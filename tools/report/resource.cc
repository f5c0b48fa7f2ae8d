// mpnanny://runs/{run}/view: what the page of a run draws, as data.
#include "tools/report/page.h"
#include "tools/tool.h"

namespace mpnanny::report {

ResourceTemplate MakeResourceTemplate() {
  ResourceTemplate resource;
  resource.uri_template = "mpnanny://runs/{run}/view";
  resource.variable = "run";
  resource.name = "run-view-data";
  resource.title = "Data of the view of a run";
  resource.description =
      "Curves, layers by steps and histograms of a run as ui://mpnanny/run draws them; for views, "
      "too long for a model. {run} is a percent-encoded run handle.";
  resource.mime_type = "application/json";
  resource.is_public = false;
  resource.read = [](const std::string& handle, const ToolContext& context) -> Result<std::string> {
    auto data = RunData(handle, context, true);
    if (!data) return data.error();
    return DumpJson(*data);
  };
  return resource;
}

}  // namespace mpnanny::report
