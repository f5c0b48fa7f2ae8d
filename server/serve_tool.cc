#include "server/serve_tool.h"

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "server/methods/tool_result.h"
#include "tools/call.h"

namespace mpnanny {
namespace {

// How long a call may go on after its first answer.
constexpr std::chrono::minutes kLongest{30};

// The job of the call stands beside the tool's own arguments and fields.
ToolDefinition WithJob(ToolDefinition definition) {
  definition.input_schema["properties"]["job"] = {{"type", "string"},
                                                  {"description",
                                                   "From an answer with status \"running\": goes "
                                                   "on waiting for that call. Give nothing else."}};
  Json& fields = definition.output_schema["properties"];
  fields["status"] = {{"type", "string"},
                      {"description", "\"running\": this is what there is so far."}};
  fields["job"] = {{"type", "string"}, {"description", "Pass it back to go on waiting."}};
  return definition;
}

// What is drawn of a run in clients with MCP Apps (tools/run_view).
constexpr char kView[] = "ui://mpnanny/run";

// Base64 makes a third more of it; clients cut answers.
constexpr size_t kMostPictureBytes = 150'000;

// The wish for a picture stands beside the tool's own arguments, which its answer does not depend on.
Tool WithPicture(Tool tool) {
  if (!tool.picture) return tool;
  tool.definition.input_schema["properties"]["picture"] = {
      {"type", "boolean"},
      {"default", false},
      {"description", "Adds the answer as an image, for people to look at."}};
  tool.run = [run = tool.run, draw = tool.picture](const Json& arguments,
                                                   const ToolContext& context) {
    auto output = run(arguments, context);
    if (!output || !arguments.value("picture", false)) return output;
    auto picture = draw(arguments, output->structured, context);
    if (!picture) {
      output->text += "\nNo picture: " + picture.error().Text();
    } else if (picture->png.size() > kMostPictureBytes) {
      output->text += "\nNo picture: it would be larger than clients take.";
    } else {
      output->picture = *std::move(picture);
    }
    return output;
  };
  return tool;
}

// What a running call has so far. Written by the work, read at its deadline.
class SoFar {
 public:
  void Set(ToolOutput output) {
    const std::lock_guard lock(mutex_);
    output_ = std::move(output);
  }
  ToolOutput Running(const std::string& tool, const std::string& job) const {
    ToolOutput output;
    {
      const std::lock_guard lock(mutex_);
      output = output_;
    }
    Json structured = {{"status", "running"}, {"job", job}};
    if (output.structured.is_object()) structured.update(output.structured);
    return {std::move(structured), "Still running. Call " + tool + " again with {\"job\": \"" +
                                       job + "\"} for the rest. So far:\n" + output.text};
  }

 private:
  mutable std::mutex mutex_;
  ToolOutput output_;
};

Outcome CallServed(const Tool& tool, Json arguments, ToolContext context,
                   const RequestContext& request) {
  const std::string& name = tool.definition.name;
  if (tool.definition.may_go_on) {
    const auto so_far = std::make_shared<SoFar>();
    auto running = [so_far, name](const std::string& job) {
      return ToolOutcome(name, so_far->Running(name, job), CancelToken());
    };
    context.so_far = [so_far, call = request.call, running, name,
                      told = false](ToolOutput output) mutable {
      so_far->Set(std::move(output));
      if (!std::exchange(told, true)) call->MayOutliveItsDeadline(name, running, kLongest);
    };
  }
  return ToolOutcome(name, CallTool(tool, std::move(arguments), context), request.cancel);
}

}  // namespace

ServedTool ServeTool(Tool given, std::function<ToolContext(const RequestContext& request)> context) {
  Tool tool = WithPicture(std::move(given));
  const std::string view = tool.picture ? kView : "";
  ToolDefinition definition =
      tool.definition.may_go_on ? WithJob(tool.definition) : tool.definition;
  auto call = [tool = std::move(tool), context = std::move(context)](
                  Json arguments, const RequestContext& request) {
    return CallServed(tool, std::move(arguments), context(request), request);
  };
  return {std::move(definition), std::move(call), view};
}

}  // namespace mpnanny
