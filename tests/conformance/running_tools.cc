// What a call sends, or goes through, while it runs: progress, log messages, a stream that is
// suspended, the client that takes the call back.
#include <atomic>
#include <memory>

#include "tests/conformance/fixtures.h"

namespace mpnanny::conformance {
namespace {

using std::chrono::milliseconds;

Outcome LogThrice(const Json&, const RequestContext& context) {
  for (const char* text :
       {"Tool execution started", "Tool processing data", "Tool execution completed"}) {
    context.call->Log(LogLevel::kInfo, "conformance", text);
    if (!Pause(context, milliseconds(50))) return Stopped{};
  }
  return Text("Three log messages were sent to clients that want them.");
}

Outcome ReportProgress(const Json&, const RequestContext& context) {
  for (const int done : {0, 50, 100}) {
    if (context.progress) {
      context.progress(done, 100, "Completed step " + std::to_string(done) + " of 100");
    }
    if (!Pause(context, milliseconds(50))) return Stopped{};
  }
  return Text(DumpJson(context.call->envelope().progress_token));
}

// The stream ends while the call goes on; the answer waits until the client asks for it.
Outcome Reconnect(const Json&, const RequestContext& context) {
  context.call->SuspendStream();
  if (!Pause(context, milliseconds(100))) return Stopped{};
  return Text("The answer that was given after the stream had been ended.");
}

Outcome LogOnce(const Json&, const RequestContext& context) {
  context.call->Log(LogLevel::kInfo, "conformance", "A message for those who asked for some.");
  return Text("Logged.");
}

// Asks for input after something was sent on the call's own stream.
Outcome ProgressThenForm(const Json&, const RequestContext& context) {
  if (const Json* answer = AnswerTo("consent", context)) {
    return Text("The user answered: " + TextAt(*answer, "action", "nothing"));
  }
  if (context.progress) context.progress(1, 2, "half way");
  return InputRequired{{{"consent", ElicitationRequest("Go on?", {{"ok", {{"type", "boolean"}}}},
                                                       Json::array({"ok"}))}}};
}

}  // namespace

std::vector<ServedTool> RunningTools() {
  std::vector<ServedTool> tools;
  tools.push_back(MakeTool("test_tool_with_logging", "Sends log messages while it runs.",
                           Json::object(), LogThrice));
  tools.push_back(MakeTool("test_tool_with_progress", "Reports progress while it runs.",
                           Json::object(), ReportProgress));
  tools.push_back(MakeTool("test_reconnection", "Ends its stream before it answers.",
                           Json::object(), Reconnect));
  tools.push_back(MakeTool("test_logging_tool", "Sends one log message to clients that want it.",
                           Json::object(), LogOnce));
  tools.push_back(MakeTool("test_streaming_elicitation",
                           "Reports progress, then asks the user something.", Json::object(),
                           ProgressThenForm));

  // Not the suite's: whether a call that was taken back has heard of it, for the tests over stdio.
  const auto stopped = std::make_shared<std::atomic<int>>(0);
  tools.push_back(MakeTool("test_wait_until_cancelled", "Runs until it is taken back.",
                           Json::object(),
                           [stopped](const Json&, const RequestContext& context) -> Outcome {
                             if (context.progress) context.progress(1, std::nullopt, "waiting");
                             if (Pause(context, std::chrono::minutes(1))) return Text("Waited.");
                             ++*stopped;
                             return Stopped{};
                           }));
  tools.push_back(MakeTool(
      "test_count_cancelled", "How many waiting calls were taken back.", Json::object(),
      [stopped](const Json&, const RequestContext&) { return Text(std::to_string(*stopped)); }));
  return tools;
}

}  // namespace mpnanny::conformance
