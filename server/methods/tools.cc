// tools/list and tools/call.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "server/methods/methods.h"
#include "server/methods/paging.h"
#include "server/methods/tool_listing.h"
#include "server/methods/tool_result.h"
#include "server/protocol/error_codes.h"

namespace mpnanny {
namespace {

constexpr int64_t kToolsTtlMs = 300'000;

Json Listings(const Registry& registry) {
  Json listings = Json::array();
  for (const ServedTool& tool : registry.tools) listings.push_back(ToolListing(tool));
  return listings;
}

Outcome ListTools(const Json& listings, const Json& params) {
  auto page = Page("tools", listings, params);
  if (auto* error = std::get_if<WireError>(&page)) return std::move(*error);
  return MethodResult{std::get<Json>(std::move(page)), CacheHint{kToolsTtlMs, true}};
}

// A call that was answered "running" is asked about again.
Outcome GoOn(const std::string& tool, const Json& job, const RequestContext& context) {
  if (!job.is_string()) return MethodResult{ErrorToolResult("job must be a string.")};
  const std::string& id = job.get_ref<const std::string&>();
  // Answers a little before the deadline of this call: as the first answer did, with what there is.
  const auto left = context.cancel.deadline() - std::chrono::steady_clock::now();
  auto outcome = context.jobs.Wait(id, tool, context.cancel, left - left / 20);
  if (outcome) return *std::move(outcome);
  return MethodResult{
      ErrorToolResult("There is no job '" + EscapeControl(id, 100) + "' of " + tool +
                      ": it ended over half an hour ago, or the server was started again. Call " +
                      tool + " with the arguments of the first call.")};
}

Outcome CallByName(const Registry& registry, const Json& params, const RequestContext& context) {
  const auto name = params.find("name");
  if (name == params.end() || !name->is_string()) {
    return WireError{kInvalidParams, "params.name must be the name of a tool."};
  }
  const std::string& wanted = name->get_ref<const std::string&>();
  const auto tool = std::find_if(
      registry.tools.begin(), registry.tools.end(),
      [&](const ServedTool& candidate) { return candidate.definition.name == wanted; });
  if (tool == registry.tools.end()) {
    std::vector<std::string> names;
    for (const ServedTool& each : registry.tools) names.push_back(each.definition.name);
    std::string message = "Unknown tool '" + EscapeControl(wanted, 100) + "'.";
    if (const std::string near = DidYouMean(wanted, names); !near.empty()) message += " " + near;
    return WireError{kInvalidParams, message + " tools/list names them all."};
  }
  Json arguments = Json::object();
  if (const auto given = params.find("arguments"); given != params.end() && !given->is_null()) {
    if (!given->is_object())
      return WireError{kInvalidParams, "params.arguments must be an object."};
    arguments = *given;
  }
  if (tool->definition.may_go_on && arguments.contains("job")) {
    return GoOn(wanted, arguments["job"], context);
  }
  return tool->call(std::move(arguments), context);
}

}  // namespace

void AddToolMethods(const Registry& registry, MethodTable& methods) {
  methods["tools/list"] = {
      .run = [listings = Listings(registry)](
                 const Json& params, const RequestContext&) { return ListTools(listings, params); },
  };
  methods["tools/call"] = {
      .runs_on = RunsOn::kPool,
      .run = [&registry](
                 const Json& params,
                 const RequestContext& context) { return CallByName(registry, params, context); },
      .may_ask_client = true,
      .unavailable = [](const std::string& message) -> Outcome {
        return MethodResult{ErrorToolResult(message)};
      },
  };
}

}  // namespace mpnanny
