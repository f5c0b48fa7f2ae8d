// All fixtures together.
#include <iterator>
#include <utility>

#include "base/data_files.h"
#include "base/files.h"
#include "base/version.h"
#include "tests/conformance/fixtures.h"

namespace mpnanny::conformance {

Registry FixtureRegistry() {
  Registry registry;
  registry.server_info = {{"name", "mpnanny-conformance"},
                          {"title", "mpnanny's core with the conformance suite's fixtures"},
                          {"version", std::string(kVersion)}};
  registry.instructions = "For tests: every tool, resource and prompt shows one thing.";
  for (auto kind : {ContentTools(), SchemaTools(), RunningTools(), NoticeTools(), ClientTools(),
                    FormTools(), InputTools()}) {
    std::move(kind.begin(), kind.end(), std::back_inserter(registry.tools));
  }
  registry.fixed_resources = FixedResources();
  registry.resources = ResourceFamilies();
  registry.prompts = []() -> const std::vector<ServedPrompt>& {
    static const std::vector<ServedPrompt> prompts = Prompts();
    return prompts;
  };
  registry.tool_context = [](const RequestContext& request) {
    static const AllowedRoots roots = AllowedRoots::Unrestricted();
    static const DataFiles data = *DataFiles::Create();
    return ToolContext{
        .roots = roots, .data = data, .cancel = request.cancel, .progress = request.progress};
  };
  registry.features = {.logging = true, .list_changes = true, .subscriptions = true};
  return registry;
}

}  // namespace mpnanny::conformance
