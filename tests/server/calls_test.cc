// Tool calls: errors, cancellation, progress, deadlines, duplicates, batches, and that a slow one
// is in nobody's way.
#include <gtest/gtest.h>

#include <set>

#include "tests/server/test_server.h"

namespace mpnanny {
namespace {

Json CallRequest(Json id, const std::string& tool, Json arguments = Json::object(),
                 Json meta = nullptr) {
  Json params = {{"name", tool}, {"arguments", std::move(arguments)}};
  if (!meta.is_null()) params["_meta"] = std::move(meta);
  return Request(std::move(id), "tools/call", std::move(params));
}

Json Cancel(Json id) {
  return {{"jsonrpc", "2.0"},
          {"method", "notifications/cancelled"},
          {"params", {{"requestId", std::move(id)}, {"reason", "not needed"}}}};
}

TEST(ToolErrors, WhatAModelCanMendIsAResult) {
  TestServer server;
  server.Initialize();
  for (const char* kind :
       {"InvalidInput", "NotFound", "Unavailable", "DataCorrupt", "DeadlineExceeded"}) {
    Json answer = server.client.Ask(CallRequest(kind, "fail", {{"kind", kind}}));
    EXPECT_EQ(answer["result"]["isError"], true) << DumpJson(answer);
    EXPECT_FALSE(answer["result"]["content"][0]["text"].get<std::string>().empty());
  }
  Json missing = server.client.Ask(CallRequest(1, "fail", {{"kind", "NotFound"}}));
  EXPECT_EQ(missing["result"]["content"][0]["text"],
            "grad.pt: no such file. Pass an existing path.");
  Json wrong_type = server.client.Ask(CallRequest(2, "sleep", {{"ms", "soon"}}));
  EXPECT_EQ(wrong_type["result"]["isError"], true);
  Json unknown = server.client.Ask(CallRequest(3, "echo", {{"txet", "hi"}}));
  EXPECT_EQ(unknown["result"]["isError"], true);
  EXPECT_NE(unknown["result"]["content"][0]["text"].get<std::string>().find("text"),
            std::string::npos)
      << "names the nearest argument";
}

TEST(ToolErrors, UnknownToolNamesTheNearest) {
  TestServer server;
  server.Initialize();
  Json answer = server.client.Ask(CallRequest(1, "ecco"));
  EXPECT_EQ(answer["error"]["code"], -32602);
  EXPECT_NE(answer["error"]["message"].get<std::string>().find("'echo'"), std::string::npos);
}

TEST(ToolErrors, OurBugsShowALogIdAndNoDetails) {
  TestServer server;
  server.Initialize();
  for (const Json& request :
       {CallRequest(1, "fail", {{"kind", "Internal"}}), CallRequest(1, "throw_exception"),
        CallRequest(1, "throw_raw"), CallRequest(1, "bad_result")}) {
    testing::internal::CaptureStderr();
    Json answer = server.client.Ask(request);
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_EQ(answer["error"]["code"], -32603) << DumpJson(answer);
    const std::string message = answer["error"]["message"];
    EXPECT_EQ(message.find("secret"), std::string::npos) << message;
    const size_t at = message.find("e-");
    ASSERT_NE(at, std::string::npos) << message;
    EXPECT_NE(log.find(message.substr(at, 8)), std::string::npos)
        << "the id stands in the log: " << log;
  }
  EXPECT_TRUE(server.client.Ask(CallRequest(2, "echo")).contains("result"));
}

TEST(SlowCalls, BlockNeitherPingNorListsNorOtherCalls) {
  TestServer server;
  server.Initialize();
  server.client.Send(CallRequest("slow", "sleep_until_cancelled"));
  server.client.Send(CallRequest("slow too", "sleep_until_cancelled"));
  EXPECT_EQ(server.client.Ask(Request(1, "ping"))["id"], 1);
  EXPECT_TRUE(server.client.Ask(Request(2, "tools/list")).contains("result"));
  EXPECT_TRUE(server.client.Ask(CallRequest(3, "echo")).contains("result"));
  EXPECT_TRUE(server.client.Ask(Request(4, "resources/read", {{"uri", "test://item/item%203"}}))
                  .contains("result"));
  EXPECT_TRUE(server.client.others.empty());
}

TEST(SlowCalls, PingIsAnsweredWhenEveryThreadIsBusy) {
  StdioServerOptions options;
  options.dispatcher.threads = 2;
  options.dispatcher.max_waiting_calls = 3;
  TestServer server(TestRegistry(), options);
  server.Initialize();
  // Two run, three wait (or fewer run yet and more wait); of twenty, at least fifteen find no room.
  for (int i = 0; i < 20; ++i) server.client.Send(CallRequest(i, "sleep_until_cancelled"));
  EXPECT_EQ(server.client.Ask(Request("p", "ping"))["result"], Json::object());
  EXPECT_GE(server.client.others.size(), 15u);
  for (Json& refused : server.client.others) {
    EXPECT_EQ(refused["result"]["isError"], true);
    EXPECT_NE(refused["result"]["content"][0]["text"].get<std::string>().find("Too many calls"),
              std::string::npos);
  }
}

TEST(Cancellation, NoAnswerAndTheWorkStops) {
  StdioServerOptions options;
  options.dispatcher.threads = 1;
  TestServer server(TestRegistry(), options);
  server.Initialize();
  server.client.Send(CallRequest("c", "sleep_until_cancelled"));
  server.client.Send(CallRequest("waits behind it", "echo"));
  server.client.Send(Cancel("c"));
  EXPECT_EQ(server.client.Read()["id"], "waits behind it") << "the only thread is free again";
  server.client.Send(Cancel("c"));  // finished: ignored
  server.client.CloseInput();
  EXPECT_TRUE(server.client.ReadAll().empty());
}

TEST(Cancellation, OfACallThatStillWaits) {
  StdioServerOptions options;
  options.dispatcher.threads = 1;
  TestServer server(TestRegistry(), options);
  server.Initialize();
  server.client.Send(CallRequest(1, "sleep_until_cancelled"));
  server.client.Send(CallRequest(2, "echo"));
  server.client.Send(Cancel(2));
  server.client.Send(Cancel("1"));  // another id than 1: ignored
  server.client.Send(Cancel(1));
  server.client.Send(CallRequest(3, "echo"));
  EXPECT_EQ(server.client.Read()["id"], 3);
}

TEST(Cancellation, WorksForModernRequests) {
  StdioServerOptions options;
  options.dispatcher.threads = 1;
  TestServer server(TestRegistry(), options);
  server.client.Send(ModernRequest("m", "tools/call", {{"name", "sleep_until_cancelled"}}));
  server.client.Send(Cancel("m"));
  server.client.Send(ModernRequest("n", "tools/call", {{"name", "echo"}}));
  EXPECT_EQ(server.client.Read()["id"], "n");
}

TEST(Cancellation, AnIdIsFreeAgain) {
  StdioServerOptions options;
  options.dispatcher.threads = 2;
  TestServer server(TestRegistry(), options);
  server.Initialize();
  for (int i = 0; i < 20; ++i) {
    server.client.Send(CallRequest("same", "sleep_until_cancelled"));
    server.client.Send(Cancel("same"));
  }
  EXPECT_TRUE(server.client.Ask(CallRequest("same", "echo")).contains("result"));
  EXPECT_TRUE(server.client.others.empty());
}

TEST(DuplicateIds, TheSecondIsRefusedAndTheFirstGoesOn) {
  TestServer server;
  server.Initialize();
  server.client.Send(CallRequest("d", "sleep", {{"ms", 50}}));
  for (const Json& second : {CallRequest("d", "echo"), Request("d", "ping")}) {
    server.client.Send(second);
  }
  EXPECT_EQ(server.client.Read()["error"]["code"], -32600);
  EXPECT_EQ(server.client.Read()["error"]["code"], -32600);
  EXPECT_EQ(server.client.Read()["result"]["structuredContent"]["text"], "slept");
  EXPECT_TRUE(server.client.Ask(CallRequest("d", "echo")).contains("result")) << "free again";
}

TEST(Progress, OnlyWhenAskedForAndStrictlyGrowing) {
  TestServer server;
  server.Initialize("2025-11-25");
  EXPECT_EQ(server.client.Ask(CallRequest(1, "count"))["result"]["structuredContent"]["text"],
            "silent");
  EXPECT_TRUE(server.client.others.empty());
  for (const Json& token : {Json("tok"), Json(0), Json("")}) {
    server.client.others.clear();
    server.client.Ask(CallRequest(2, "count", {{"to", 3}}, {{"progressToken", token}}));
    ASSERT_EQ(server.client.others.size(), 4u);
    for (int i = 0; i < 4; ++i) {
      const Json& note = server.client.others[static_cast<size_t>(i)];
      EXPECT_EQ(note["method"], "notifications/progress");
      EXPECT_FALSE(note.contains("id"));
      EXPECT_EQ(note["params"]["progressToken"], token);
      EXPECT_EQ(note["params"]["progress"], i);
      EXPECT_EQ(note["params"]["total"], 3);
      EXPECT_EQ(note["params"]["message"], "at " + std::to_string(i));
    }
  }
}

TEST(Progress, OldRevisionHasNoMessageAndModernHasAll) {
  TestServer server;
  server.Initialize("2024-11-05");
  server.client.Ask(CallRequest(1, "count", {{"to", 0}}, {{"progressToken", "a"}}));
  ASSERT_EQ(server.client.others.size(), 1u);
  EXPECT_FALSE(server.client.others[0]["params"].contains("message"));
  server.client.others.clear();
  server.client.Ask(ModernRequest(
      2, "tools/call",
      {{"name", "count"}, {"arguments", {{"to", 0}}}, {"_meta", {{"progressToken", "b"}}}}));
  ASSERT_EQ(server.client.others.size(), 1u);
  EXPECT_EQ(server.client.others[0]["params"]["message"], "at 0");
}

TEST(Deadline, AHandlerThatHeedsItAnswersItself) {
  StdioServerOptions options;
  options.dispatcher.deadline = std::chrono::milliseconds(30);
  TestServer server(TestRegistry(), options);
  server.Initialize();
  Json answer = server.client.Ask(CallRequest(1, "sleep_until_cancelled"));
  EXPECT_EQ(answer["result"]["isError"], true);
}

TEST(Deadline, OneThatDoesNotIsAnsweredForOnce) {
  StdioServerOptions options;
  options.dispatcher.deadline = std::chrono::milliseconds(10);
  options.dispatcher.grace = std::chrono::milliseconds(10);
  options.dispatcher.threads = 1;
  TestServer server(TestRegistry(), options);
  server.Initialize();
  server.client.Send(CallRequest(1, "sleep", {{"ms", 300}}));
  server.client.Send(CallRequest(2, "echo"));  // waits behind it: is answered for as well
  Json first = server.client.Answer(1);
  EXPECT_EQ(first["result"]["isError"], true);
  EXPECT_NE(first["result"]["content"][0]["text"].get<std::string>().find("did not end"),
            std::string::npos);
  EXPECT_EQ(server.client.Answer(2)["result"]["isError"], true);
  EXPECT_TRUE(server.client.Ask(Request(3, "ping")).contains("result"));
  server.client.CloseInput();
  EXPECT_TRUE(server.client.ReadAll().empty()) << "each of them got one answer";
}

TEST(Batches, OneArrayOfAnswersInTheRevisionThatHasThem) {
  TestServer server;
  server.Initialize("2025-03-26");
  server.client.Send(Json::array({
      Request(1, "ping"),
      {{"jsonrpc", "2.0"}, {"method", "notifications/initialized"}},
      CallRequest(2, "sleep", {{"ms", 20}}),
      CallRequest(3, "count", {{"to", 1}}, {{"progressToken", "p"}}),
      Request(4, "no/such"),
      InitializeRequest(5, "2025-03-26"),
      17,
  }));
  Json batch;
  int notes = 0;
  while (!batch.is_array()) {
    Json message = server.client.Read();
    ASSERT_FALSE(message.is_null());
    if (message.is_object()) {
      EXPECT_EQ(message["method"], "notifications/progress");
      ++notes;
    } else {
      batch = std::move(message);
    }
  }
  EXPECT_EQ(notes, 2);
  std::map<std::string, Json> by_id;
  for (const Json& answer : batch) by_id[DumpJson(answer["id"])] = answer;
  EXPECT_EQ(by_id.size(), 6u) << DumpJson(batch);
  EXPECT_TRUE(by_id["1"].contains("result"));
  EXPECT_EQ(by_id["2"]["result"]["content"][0]["text"], "slept");
  EXPECT_TRUE(by_id["3"].contains("result"));
  EXPECT_EQ(by_id["4"]["error"]["code"], -32601);
  EXPECT_EQ(by_id["5"]["error"]["code"], -32600) << "initialize must not be in a batch";
  EXPECT_EQ(by_id["null"]["error"]["code"], -32600);
}

TEST(Batches, OfNotificationsOnlyGetNoAnswer) {
  TestServer server;
  server.Initialize("2025-03-26");
  server.client.Send(Json::array({{{"jsonrpc", "2.0"}, {"method", "notifications/initialized"}}}));
  server.client.Send(Request(1, "ping"));
  EXPECT_EQ(server.client.Read()["id"], 1);
}

TEST(Batches, ACancelledCallLeavesTheOthersTheirAnswers) {
  TestServer server;
  server.Initialize("2025-03-26");
  server.client.Send(Json::array({Request(1, "ping"), CallRequest(2, "sleep_until_cancelled")}));
  server.client.Send(Cancel(2));
  Json batch = server.client.Read();
  ASSERT_TRUE(batch.is_array()) << DumpJson(batch);
  EXPECT_EQ(batch.size(), 1u);
  EXPECT_EQ(batch[0]["id"], 1);
}

TEST(Load, ThousandsOfCallsGetTheirOwnAnswers) {
  TestServer server;
  server.Initialize();
  constexpr int kCalls = 3000;
  std::thread writer([&] {
    for (int i = 0; i < kCalls; ++i) {
      server.client.Send(CallRequest(i, "echo", {{"text", std::to_string(i)}}));
    }
  });
  std::set<int> seen;
  for (int i = 0; i < kCalls; ++i) {
    Json answer = server.client.Read();
    ASSERT_TRUE(answer.contains("result")) << DumpJson(answer);
    EXPECT_EQ(answer["result"]["content"][0]["text"], std::to_string(answer["id"].get<int>()));
    seen.insert(answer["id"].get<int>());
  }
  writer.join();
  EXPECT_EQ(seen.size(), static_cast<size_t>(kCalls));
}

}  // namespace
}  // namespace mpnanny
