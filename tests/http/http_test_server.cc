#include "tests/http/http_test_server.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>

namespace mpnanny {
namespace {

using Run = std::function<Outcome(const Json& arguments, const RequestContext& context)>;

Outcome Text(const std::string& text) {
  return MethodResult{{{"content", Json::array({{{"type", "text"}, {"text", text}}})}}};
}

ServedTool MakeTool(const std::string& name, Run run, Json properties = Json::object()) {
  ToolDefinition definition;
  definition.name = name;
  definition.description = "A tool of the tests.";
  definition.input_schema = {{"type", "object"}, {"properties", std::move(properties)}};
  return {std::move(definition), std::move(run)};
}

void Tell(const RequestContext& context, double progress) {
  if (context.progress) context.progress(progress, std::nullopt, "");
}

Outcome Ask(const Json&, const RequestContext& context) {
  const Json answer = context.input.responses.value("name", Json::object());
  if (answer.contains("content")) return Text("Hello " + answer["content"].value("name", ""));
  return InputRequired{
      {{"name",
        {{"method", "elicitation/create"},
         {"params",
          {{"message", "Your name?"},
           {"requestedSchema",
            {{"type", "object"}, {"properties", {{"name", {{"type", "string"}}}}}}}}}}}}};
}

Outcome WaitForCancel(Gate& gate, const RequestContext& context) {
  gate.Arrive();
  for (int i = 0; i < 20'000 && !context.cancel.cancelled(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (context.cancel.cancelled()) gate.Open();
  return Stopped{};
}

}  // namespace

void Gate::Set(bool& what) {
  const std::lock_guard lock(mutex_);
  what = true;
  changed_.notify_all();
}

bool Gate::Wait(bool& what) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return what; });
}

Registry HttpRegistry(const std::shared_ptr<Gate>& gate) {
  Registry registry;
  registry.server_info = {{"name", "test"}, {"version", "1"}};
  registry.features = {.logging = true, .list_changes = true, .subscriptions = true};
  const auto add = [&](const std::string& name, Run run, Json properties = Json::object()) {
    registry.tools.push_back(MakeTool(name, std::move(run), std::move(properties)));
  };
  add("echo", [](const Json& arguments, const RequestContext&) {
    return Text(arguments.value("text", ""));
  });
  add("large", [](const Json& arguments, const RequestContext&) {
    return Text(std::string(arguments.value("bytes", 0), 'x'));
  });
  add("count", [](const Json& arguments, const RequestContext& context) {
    for (int i = 1; i <= arguments.value("to", 3); ++i) Tell(context, i);
    return Text("counted");
  });
  add("held", [gate](const Json&, const RequestContext& context) {
    Tell(context, 1);
    gate->Arrive();
    gate->WaitOpen();
    Tell(context, 2);
    return Text("released");
  });
  add("heeds_cancel",
      [gate](const Json&, const RequestContext& context) { return WaitForCancel(*gate, context); });
  add("ask", Ask);
  add("change", [](const Json&, const RequestContext& context) {
    context.notices.ToolsChanged();
    return Text("changed");
  });
  add("suspend", [gate](const Json&, const RequestContext& context) {
    Tell(context, 1);
    context.call->SuspendStream();
    gate->Arrive();
    gate->WaitOpen();
    Tell(context, 2);
    return Text("resumed");
  });
  add("mirrored",
      [](const Json& arguments, const RequestContext&) {
        return Text(arguments.value("region", ""));
      },
      {{"region", {{"type", "string"}, {"x-mcp-header", "Region"}}}});
  return registry;
}

HttpTestServer::HttpTestServer(HttpServerOptions options) {
  std::promise<int> listening;
  options.on_listening = [&](int port) { listening.set_value(port); };
  thread_ = std::thread([this, options] {
    const auto ended = RunHttpServer(HttpRegistry(gate), options, stop_);
    EXPECT_TRUE(ended) << ended.error().Text();
    ended_well = ended && *ended;
  });
  port_ = listening.get_future().get();
}

void HttpTestServer::Stop() {
  gate->Open();
  stop_.Request();
  if (thread_.joinable()) thread_.join();
}

std::string HttpTestServer::StartSession(const std::string& version, Json capabilities) {
  HttpClient client = Connect();
  client.Post(Initialize(version, std::move(capabilities)));
  const Reply reply = client.Read();
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.json()["result"]["protocolVersion"], version);
  const std::string id = reply.header("mcp-session-id");
  EXPECT_EQ(id.size(), 32u);
  client.Post({{"jsonrpc", "2.0"}, {"method", "notifications/initialized"}},
              {{"Mcp-Session-Id", id}});
  EXPECT_EQ(client.Read().status, 202);
  return id;
}

}  // namespace mpnanny
