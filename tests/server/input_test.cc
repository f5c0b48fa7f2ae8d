// Handlers that need something from the client: a result that the client repeats the request for
// (modern), requests of ours (legacy).
#include <gtest/gtest.h>

#include <set>

#include "tests/server/interactive_registry.h"
#include "tests/server/test_server.h"

namespace mpnanny {
namespace {

const Json kCapable = {
    {"elicitation", Json::object()}, {"sampling", Json::object()}, {"roots", Json::object()}};

Json Accept(const std::string& value) {
  return {{"action", "accept"}, {"content", {{"value", value}}}};
}

// A modern tools/call of a client that can do `capabilities`.
Json ModernCall(Json id, const std::string& tool, Json more = Json::object(),
                const Json& capabilities = kCapable) {
  Json params = {{"name", tool}, {"arguments", Json::object()}};
  params.update(more);
  params["_meta"] = ModernMeta({{"io.modelcontextprotocol/clientCapabilities", capabilities}});
  return Request(std::move(id), "tools/call", std::move(params));
}

std::string TextOf(const Json& answer) {
  return answer["result"]["content"][0]["text"].get<std::string>();
}

class Input : public testing::Test {
 protected:
  // As a legacy client that can do `capabilities`.
  void Initialize(const Json& capabilities = kCapable) {
    Json request = InitializeRequest("init", "2025-11-25");
    request["params"]["capabilities"] = capabilities;
    client().Ask(request);
  }
  PipeClient& client() { return server_.client; }
  // The server's next request to the client.
  Json ReadRequest(const std::string& method) {
    Json request = client().Read();
    EXPECT_EQ(request.value("method", ""), method) << DumpJson(request);
    return request;
  }
  void Reply(const Json& request, Json result) {
    client().Send({{"jsonrpc", "2.0"}, {"id", request["id"]}, {"result", std::move(result)}});
  }

  TestServer server_{InteractiveRegistry()};
};

TEST_F(Input, ModernClientGetsTheRequestsAndRepeatsTheCall) {
  const Json first = client().Ask(ModernCall(1, "ask_name"));
  EXPECT_EQ(first["result"]["resultType"], "input_required");
  EXPECT_EQ(first["result"]["inputRequests"]["name"]["method"], "elicitation/create");
  EXPECT_FALSE(first["result"].contains("content"));
  EXPECT_FALSE(first["result"].contains("ttlMs"));

  const Json second =
      client().Ask(ModernCall(2, "ask_name", {{"inputResponses", {{"name", Accept("Ada")}}}}));
  EXPECT_EQ(second["result"]["resultType"], "complete");
  EXPECT_EQ(TextOf(second), "Hello Ada");
}

TEST_F(Input, StateSurvivesRoundsSealed) {
  const Json first = client().Ask(ModernCall(1, "ask_twice"));
  const Json state1 = first["result"]["requestState"];
  EXPECT_EQ(state1.get<std::string>().find("round"), std::string::npos) << "it can be read";
  const Json second = client().Ask(ModernCall(
      2, "ask_twice", {{"requestState", state1}, {"inputResponses", {{"first", Accept("a")}}}}));
  const Json state2 = second["result"]["requestState"];
  EXPECT_NE(state1, state2);
  const Json third = client().Ask(ModernCall(
      3, "ask_twice", {{"requestState", state2}, {"inputResponses", {{"second", Accept("b")}}}}));
  EXPECT_EQ(TextOf(third), "a and b");
}

TEST_F(Input, AlteredOrForeignStateIsRefused) {
  const std::string state =
      client().Ask(ModernCall(1, "ask_twice"))["result"]["requestState"].get<std::string>();
  int id = 2;
  const auto refused = [&](const Json& given, const std::string& tool, const Json& arguments) {
    const Json answer =
        client().Ask(ModernCall(id++, tool, {{"requestState", given}, {"arguments", arguments}}));
    return answer.value("error", Json::object()).value("code", 0) == -32602;
  };
  for (size_t at : {size_t{0}, state.size() / 2, state.size() - 1}) {
    std::string altered = state;
    altered[at] = altered[at] == 'A' ? 'B' : 'A';
    EXPECT_TRUE(refused(altered, "ask_twice", Json::object())) << at;
  }
  EXPECT_TRUE(refused(state.substr(1), "ask_twice", Json::object()));
  EXPECT_TRUE(refused("", "ask_twice", Json::object()));
  EXPECT_TRUE(refused(7, "ask_twice", Json::object()));
  EXPECT_TRUE(refused(state, "ask_name", Json::object())) << "of another tool";
  EXPECT_TRUE(refused(state, "ask_twice", {{"x", 1}})) << "of other arguments";
  EXPECT_FALSE(refused(state, "ask_twice", Json::object()));
}

TEST_F(Input, MemberOrderOfTheArgumentsDoesNotMatterToTheSeal) {
  const Json first = client().Ask(
      ModernCall(1, "ask_twice", {{"arguments", {{"a", 1}, {"b", {{"x", 1}, {"y", 2}}}}}}));
  const Json again =
      client().Ask(ModernCall(2, "ask_twice",
                              {{"arguments", {{"b", {{"y", 2}, {"x", 1}}}, {"a", 1}}},
                               {"requestState", first["result"]["requestState"]},
                               {"inputResponses", {{"first", Accept("a")}}}}));
  EXPECT_EQ(again["result"]["resultType"], "input_required") << DumpJson(again);
}

TEST_F(Input, WrongResponsesAreAskedForAgainAndForeignOnesIgnored) {
  for (const Json& responses :
       {Json{{"other", Accept("x")}}, Json{{"name", {{"action", "decline"}}}}, Json::object()}) {
    const Json answer = client().Ask(ModernCall(1, "ask_name", {{"inputResponses", responses}}));
    EXPECT_EQ(answer["result"]["resultType"], "input_required") << DumpJson(responses);
  }
  const Json answer = client().Ask(ModernCall(1, "ask_name", {{"inputResponses", Json::array()}}));
  EXPECT_EQ(answer["error"]["code"], -32602);
}

TEST_F(Input, UndeclaredCapabilityIsAnErrorThatNamesIt) {
  const Json none = client().Ask(ModernCall(1, "ask_name", Json::object(), Json::object()));
  EXPECT_EQ(none["error"]["code"], -32021);
  EXPECT_TRUE(none["error"]["data"]["requiredCapabilities"].contains("elicitation"));
  const Json some = client().Ask(
      ModernCall(2, "ask_everything", Json::object(), {{"elicitation", Json::object()}}));
  EXPECT_TRUE(some["error"]["data"]["requiredCapabilities"].contains("sampling"));

  Initialize(Json::object());
  const Json legacy = client().Ask(Request(3, "tools/call", {{"name", "ask_name"}}));
  EXPECT_TRUE(legacy.contains("error"));
  EXPECT_NE(legacy["error"]["code"], -32021) << "legacy clients do not know this code";
}

TEST_F(Input, LegacyClientIsAskedByRequests) {
  Initialize();
  client().Send(Request(1, "tools/call", {{"name", "ask_twice"}}));
  const Json first = ReadRequest("elicitation/create");
  EXPECT_EQ(first["params"]["message"], "First?");
  Reply(first, Accept("a"));
  const Json second = ReadRequest("elicitation/create");
  EXPECT_NE(first["id"], second["id"]);
  Reply(second, Accept("b"));
  const Json answer = client().Answer(1);
  EXPECT_EQ(TextOf(answer), "a and b");
  EXPECT_FALSE(answer["result"].contains("resultType"));
}

TEST_F(Input, LegacyClientIsAskedForSeveralThingsAtOnce) {
  Initialize();
  client().Send(Request(1, "tools/call", {{"name", "ask_everything"}}));
  std::map<std::string, Json> requests;
  for (int i = 0; i < 3; ++i) {
    Json request = client().Read();
    requests[request["method"].get<std::string>()] = request;
  }
  ASSERT_EQ(requests.size(), 3u);
  Reply(requests["roots/list"], {{"roots", Json::array({{{"uri", "file:///a"}}})}});
  Reply(requests["sampling/createMessage"],
        {{"role", "assistant"}, {"content", {{"type", "text"}, {"text", "from the model"}}}});
  Reply(requests["elicitation/create"], Accept("v"));
  EXPECT_EQ(TextOf(client().Answer(1)), "v, from the model, 1 roots");
}

TEST_F(Input, PromptsAndResourcesMayAskToo) {
  Json params = {{"name", "introduce"}};
  params["_meta"] = ModernMeta({{"io.modelcontextprotocol/clientCapabilities", kCapable}});
  Json answer = client().Ask(Request(1, "prompts/get", params));
  EXPECT_EQ(answer["result"]["resultType"], "input_required");
  params["inputResponses"] = {{"who", Accept("Ada")}};
  answer = client().Ask(Request(2, "prompts/get", params));
  EXPECT_EQ(answer["result"]["messages"][0]["content"]["text"], "This is Ada");

  params = {{"uri", "test://asking"}, {"_meta", params["_meta"]}};
  answer = client().Ask(Request(3, "resources/read", params));
  EXPECT_EQ(answer["result"]["resultType"], "input_required");
  EXPECT_FALSE(answer["result"].contains("cacheScope"));
  params["inputResponses"] = {{"key", Accept("k")}};
  answer = client().Ask(Request(4, "resources/read", params));
  EXPECT_EQ(answer["result"]["contents"][0]["text"], "opened with k");
  EXPECT_EQ(answer["result"]["cacheScope"], "private");
}

TEST_F(Input, AnErrorOfTheClientEndsTheCall) {
  Initialize();
  client().Send(Request(1, "tools/call", {{"name", "ask_name"}}));
  const Json request = ReadRequest("elicitation/create");
  client().Send({{"jsonrpc", "2.0"},
                 {"id", request["id"]},
                 {"error", {{"code", -1}, {"message", "The user has left."}}}});
  const Json answer = client().Answer(1);
  EXPECT_TRUE(answer["result"].value("isError", false));
  EXPECT_NE(TextOf(answer).find("The user has left."), std::string::npos);
}

TEST_F(Input, AfterAnErrorTheOtherRequestsAreWithdrawn) {
  Initialize();
  client().Send(Request(1, "tools/call", {{"name", "ask_everything"}}));
  std::set<std::string> open;
  for (int i = 0; i < 3; ++i) open.insert(client().Read()["id"].get<std::string>());
  const std::string first = *open.begin();
  open.erase(first);
  client().Send({{"jsonrpc", "2.0"}, {"id", first}, {"error", {{"code", -1}, {"message", "No."}}}});
  EXPECT_TRUE(client().Answer(1)["result"].value("isError", false));
  for (const Json& message : client().others) {
    EXPECT_EQ(message["method"], "notifications/cancelled");
    open.erase(message["params"]["requestId"].get<std::string>());
  }
  EXPECT_TRUE(open.empty());
}

TEST_F(Input, AnAnswerThatIsNoneEndsTheWaiting) {
  Initialize();
  client().Send(Request(1, "tools/call", {{"name", "ask_name"}}));
  const Json request = ReadRequest("elicitation/create");
  client().Send({{"jsonrpc", "2.0"}, {"id", request["id"]}});
  EXPECT_TRUE(client().Answer(1)["result"].value("isError", false));
  EXPECT_TRUE(client().others.empty()) << DumpJson(client().others.front());
}

TEST_F(Input, AFormIsOnlyForClientsThatShowForms) {
  const auto error = [&](const Json& elicitation) {
    const Json answer =
        client().Ask(ModernCall(1, "ask_name", Json::object(), {{"elicitation", elicitation}}));
    return answer.value("error", Json::object()).value("code", 0);
  };
  EXPECT_EQ(error(Json::object()), 0);
  EXPECT_EQ(error({{"form", Json::object()}}), 0);
  EXPECT_EQ(error({{"form", Json::object()}, {"url", Json::object()}}), 0);
  EXPECT_EQ(error({{"url", Json::object()}}), -32021);
}

TEST_F(Input, AnswersThatNobodyWaitsForAreIgnored) {
  Initialize();
  client().Send(Request(1, "tools/call", {{"name", "ask_name"}}));
  const Json request = ReadRequest("elicitation/create");
  for (const Json& id : {Json("mpnanny-99"), Json(1), Json(nullptr)}) {
    client().Send({{"jsonrpc", "2.0"}, {"id", id}, {"result", Accept("wrong")}});
  }
  Reply(request, Accept("right"));
  Reply(request, Accept("twice"));
  EXPECT_EQ(TextOf(client().Answer(1)), "Hello right");
  EXPECT_TRUE(client().Ask(Request(2, "ping")).contains("result"));
}

TEST_F(Input, ACancelledCallStopsWaitingForTheClient) {
  Initialize();
  client().Send(Request(1, "tools/call", {{"name", "ask_name"}}));
  const Json request = ReadRequest("elicitation/create");
  client().Send(
      {{"jsonrpc", "2.0"}, {"method", "notifications/cancelled"}, {"params", {{"requestId", 1}}}});
  // The client may close its dialog.
  const Json withdrawn = client().Read();
  EXPECT_EQ(withdrawn["method"], "notifications/cancelled");
  EXPECT_EQ(withdrawn["params"]["requestId"], request["id"]);
  Reply(request, Accept("late"));
  EXPECT_TRUE(client().Ask(Request(2, "ping")).contains("result"));
  EXPECT_TRUE(client().others.empty()) << DumpJson(client().others.front());
  // The id is free again.
  client().Send(Request(1, "tools/call", {{"name", "ask_name"}}));
  Reply(ReadRequest("elicitation/create"), Accept("Bob"));
  EXPECT_EQ(TextOf(client().Answer(1)), "Hello Bob");
}

TEST_F(Input, AHandlerThatNeverHasEnoughIsStopped) {
  Initialize();
  client().Send(Request(1, "tools/call", {{"name", "ask_for_ever"}}));
  int rounds = 0;
  Json message = client().Read();
  while (message.contains("method") && rounds < 100) {
    ++rounds;
    Reply(message, Accept("more"));
    message = client().Read();
  }
  EXPECT_TRUE(message["result"].value("isError", false)) << DumpJson(message);
  EXPECT_LE(rounds, 10);
}

TEST(InputTime, AClientThatDoesNotAnswerIsGivenUp) {
  StdioServerOptions options;
  options.dispatcher.client_answer = std::chrono::milliseconds(50);
  TestServer server(InteractiveRegistry(), options);
  Json request = InitializeRequest("init", "2025-06-18");
  request["params"]["capabilities"] = kCapable;
  server.client.Ask(request);
  server.client.Send(Request(1, "tools/call", {{"name", "ask_name"}}));
  const Json asked = server.client.Read();
  const Json answer = server.client.Answer(1);
  EXPECT_TRUE(answer["result"].value("isError", false)) << DumpJson(answer);
  ASSERT_EQ(server.client.others.size(), 1u);
  EXPECT_EQ(server.client.others[0]["method"], "notifications/cancelled");
  EXPECT_EQ(server.client.others[0]["params"]["requestId"], asked["id"]);
}

TEST(InputTime, WaitingForTheClientIsNotTheCallsOwnTime) {
  StdioServerOptions options;
  options.dispatcher.deadline = std::chrono::milliseconds(30);
  options.dispatcher.grace = std::chrono::milliseconds(10);
  TestServer server(InteractiveRegistry(), options);
  Json request = InitializeRequest("init", "2025-11-25");
  request["params"]["capabilities"] = kCapable;
  server.client.Ask(request);
  server.client.Send(Request(1, "tools/call", {{"name", "ask_name"}}));
  const Json asked = server.client.Read();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  server.client.Send({{"jsonrpc", "2.0"}, {"id", asked["id"]}, {"result", Accept("Ada")}});
  EXPECT_EQ(TextOf(server.client.Answer(1)), "Hello Ada");
}

TEST(InputTime, TheEndOfTheServerAnswersCallsThatWaitForTheClient) {
  StdioServerOptions options;
  options.drain = std::chrono::milliseconds(50);
  TestServer server(InteractiveRegistry(), options);
  Json request = InitializeRequest("init", "2025-11-25");
  request["params"]["capabilities"] = kCapable;
  server.client.Ask(request);
  server.client.Send(Request(1, "tools/call", {{"name", "ask_name"}}));
  server.client.Read();
  server.client.CloseInput();
  const std::vector<Json> rest = server.client.ReadAll();
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0]["id"], 1);
  EXPECT_TRUE(rest[0]["result"].value("isError", false));
  server.Join();
  EXPECT_TRUE(server.ended_well);
}

}  // namespace
}  // namespace mpnanny
