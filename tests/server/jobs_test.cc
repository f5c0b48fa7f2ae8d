// Calls that outlast the client's patience: answered with what there is, and asked about again.
#include <gtest/gtest.h>

#include "tests/server/interactive_registry.h"
#include "tests/server/test_server.h"

namespace mpnanny {
namespace {

StdioServerOptions Impatient(int deadline_ms = 40) {
  StdioServerOptions options;
  options.dispatcher.deadline = std::chrono::milliseconds(deadline_ms);
  options.dispatcher.grace = std::chrono::milliseconds(20);
  options.drain = std::chrono::milliseconds(20);
  return options;
}

Json WorkRequest(Json id, Json arguments) {
  return ModernRequest(std::move(id), "tools/call",
                       {{"name", "work"}, {"arguments", std::move(arguments)}});
}

Json Structured(const Json& answer) {
  EXPECT_TRUE(answer.contains("result")) << DumpJson(answer);
  return answer.value("result", Json::object()).value("structuredContent", Json::object());
}

TEST(Jobs, ALongCallIsAnsweredAndGoesOn) {
  TestServer server(InteractiveRegistry(), Impatient());
  const Json first = server.client.Ask(WorkRequest(1, {{"ms", 200}}));
  ASSERT_EQ(Structured(first).value("status", ""), "running") << DumpJson(first);
  EXPECT_LT(Structured(first)["done"], 200) << "what there is so far";
  const Json job = Structured(first)["job"];
  EXPECT_NE(first["result"]["content"][0]["text"].get<std::string>().find(job), std::string::npos);

  Json answer = first;
  for (int i = 2; i < 1000 && Structured(answer).value("status", "") == "running"; ++i) {
    EXPECT_EQ(Structured(answer)["job"], job);
    answer = server.client.Ask(WorkRequest(i, {{"job", job}}));
  }
  EXPECT_EQ(Structured(answer), Json({{"done", 200}}));
  // It may be asked for once more: the answer may not have arrived.
  EXPECT_EQ(Structured(server.client.Ask(WorkRequest("again", {{"job", job}}))),
            Json({{"done", 200}}));
}

TEST(Jobs, AreForgottenByNobodyElse) {
  TestServer server(InteractiveRegistry(), Impatient());
  for (const Json& job : {Json("no such job"), Json(7), Json("")}) {
    const Json answer = server.client.Ask(WorkRequest(1, {{"job", job}}));
    EXPECT_TRUE(answer["result"].value("isError", false)) << DumpJson(answer);
  }
  // A tool without jobs does not know the argument.
  const Json answer = server.client.Ask(
      ModernRequest(2, "tools/call", {{"name", "echo"}, {"arguments", {{"job", "x"}}}}));
  EXPECT_TRUE(answer["result"].value("isError", false));
}

TEST(Jobs, AShortCallHasNone) {
  TestServer server(InteractiveRegistry(), Impatient(20'000));
  const Json answer = server.client.Ask(WorkRequest(1, {{"ms", 5}}));
  EXPECT_EQ(Structured(answer), Json({{"done", 5}}));
}

TEST(Jobs, TheIdOfTheFirstCallIsFreeAndOtherCallsAreServed) {
  TestServer server(InteractiveRegistry(), Impatient(100));
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(Structured(server.client.Ask(WorkRequest(1, {{"ms", 10'000}}))).value("status", ""),
              "running");
  }
  // All four threads of the pool are busy with jobs now.
  const Json answer = server.client.Ask(
      ModernRequest(1, "tools/call", {{"name", "echo"}, {"arguments", {{"text", "hi"}}}}));
  EXPECT_EQ(answer["result"]["structuredContent"]["text"], "hi");
  // A fifth has no place: it ends as calls do that cannot go on.
  const Json fifth = server.client.Ask(WorkRequest(2, {{"ms", 10'000}}));
  EXPECT_TRUE(fifth["result"].value("isError", false)) << DumpJson(fifth);
}

TEST(Jobs, WhoWaitsForThemLeavesThreadsForOthers) {
  TestServer server(InteractiveRegistry(), Impatient(2'000));
  // The deadline is that of the calls that wait, too, so the first job needs its two seconds.
  const Json first = server.client.Ask(WorkRequest(1, {{"ms", 60'000}}));
  const Json job = Structured(first)["job"];
  for (int i = 10; i < 18; ++i) server.client.Send(WorkRequest(i, {{"job", job}}));
  server.client.others.clear();
  const Json answer = server.client.Ask(
      ModernRequest(2, "tools/call", {{"name", "echo"}, {"arguments", {{"text", "hi"}}}}));
  EXPECT_EQ(answer["result"]["structuredContent"]["text"], "hi");
  EXPECT_TRUE(server.client.others.empty()) << "it was answered only after those that wait";
}

TEST(Jobs, EndWithTheServer) {
  TestServer server(InteractiveRegistry(), Impatient());
  server.client.Ask(WorkRequest(1, {{"ms", 60'000}}));
  server.client.CloseInput();
  EXPECT_TRUE(server.client.ReadAll().empty());
  server.Join();
  EXPECT_TRUE(server.ended_well);
}

TEST(Jobs, ACancelledCallDoesNotBecomeOne) {
  TestServer server(InteractiveRegistry(), Impatient(60));
  server.client.Send(WorkRequest(1, {{"ms", 60'000}}));
  server.client.Send(
      {{"jsonrpc", "2.0"}, {"method", "notifications/cancelled"}, {"params", {{"requestId", 1}}}});
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  EXPECT_TRUE(server.client.Ask(ModernRequest(2, "server/discover")).contains("result"));
  EXPECT_TRUE(server.client.others.empty()) << DumpJson(server.client.others.front());
}

TEST(Jobs, TheDefinitionOfALongToolTellsThem) {
  TestServer server(InteractiveRegistry());
  const Json list = server.client.Ask(ModernRequest(1, "tools/list"))["result"]["tools"];
  for (const Json& tool : list) {
    const bool has = tool["inputSchema"].value("properties", Json::object()).contains("job");
    EXPECT_EQ(has, tool["name"] == "work") << tool["name"];
  }
}

}  // namespace
}  // namespace mpnanny
