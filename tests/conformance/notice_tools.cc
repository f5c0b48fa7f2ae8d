// Tools that make the server tell whoever listens that something changed.
#include "tests/conformance/fixtures.h"

namespace mpnanny::conformance {
namespace {

ServedTool Trigger(const std::string& name, const std::string& what,
                   const std::function<void(NoticeHub& notices)>& tell) {
  return MakeTool(name, "Tells listeners that " + what + ".", Json::object(),
                  [what, tell](const Json&, const RequestContext& context) {
                    tell(context.notices);
                    return Text("Listeners were told that " + what + ".");
                  });
}

}  // namespace

std::vector<ServedTool> NoticeTools() {
  return {Trigger("test_trigger_tool_change", "the list of tools changed",
                  [](NoticeHub& notices) { notices.ToolsChanged(); }),
          Trigger("test_trigger_prompt_change", "the list of prompts changed",
                  [](NoticeHub& notices) { notices.PromptsChanged(); }),
          Trigger("test_trigger_resource_change", "the list of resources changed",
                  [](NoticeHub& notices) { notices.ResourcesChanged(); }),
          Trigger("test_trigger_resource_update", "the watched resource changed",
                  [](NoticeHub& notices) { notices.ResourceUpdated(kWatchedUri); })};
}

}  // namespace mpnanny::conformance
