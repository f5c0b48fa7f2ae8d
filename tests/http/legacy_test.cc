// The older revisions over real sockets: sessions, resumable streams, requests to the client.
#include <gtest/gtest.h>

#include "tests/http/http_test_server.h"

namespace mpnanny {
namespace {

using std::chrono::milliseconds;

Json WithProgress(Json call) {
  call["params"]["_meta"] = {{"progressToken", "p"}};
  return call;
}

Headers In(const std::string& session) { return {{"Mcp-Session-Id", session}}; }

// Opens the session's own stream, or goes on with another one after an event.
HttpClient OpenStream(const HttpTestServer& server, const std::string& session,
                      const std::string& last_event = "") {
  HttpClient client = server.Connect();
  Headers headers = In(session);
  if (!last_event.empty()) headers.emplace_back("Last-Event-ID", last_event);
  client.Send("GET", headers);
  EXPECT_EQ(client.ReadHead().status, 200);
  return client;
}

class EachRevision : public testing::TestWithParam<const char*> {};

TEST_P(EachRevision, IsServedInASession) {
  HttpTestServer server;
  const std::string session = server.StartSession(GetParam());
  HttpClient client = server.Connect();
  client.Post(LegacyCall(0, "echo", {{"text", "x"}}), In(session));
  const Reply reply = client.Read();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.json()["id"], 0);
  EXPECT_FALSE(reply.json()["result"].contains("resultType"));
  client.Post(Legacy(1, "no/such"), In(session));
  const Reply unknown = client.Read();
  EXPECT_EQ(unknown.status, 200);
  EXPECT_EQ(unknown.json()["error"]["code"], -32601);
}

INSTANTIATE_TEST_SUITE_P(All, EachRevision,
                         testing::Values("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Session, IsWantedAndChecked) {
  HttpTestServer server;
  const std::string session = server.StartSession();
  HttpClient client = server.Connect();
  const auto status = [&](const Headers& headers) {
    client.Post(Legacy(1, "ping"), headers);
    return client.Read().status;
  };
  EXPECT_EQ(status({}), 400);
  EXPECT_EQ(status(In(std::string(32, '0'))), 404);
  EXPECT_EQ(status(In(session)), 200);
  EXPECT_EQ(status({{"Mcp-Session-Id", session}, {"MCP-Protocol-Version", "2025-06-18"}}), 200);
  EXPECT_EQ(status({{"Mcp-Session-Id", session}, {"MCP-Protocol-Version", "1999-01-01"}}), 400);
  EXPECT_EQ(status({{"MCP-Protocol-Version", "2025-06-18"}}), 400) << "no session";
}

TEST(Session, EndsByDelete) {
  HttpTestServer server;
  const std::string session = server.StartSession();
  HttpClient own = OpenStream(server, session);
  EXPECT_TRUE(own.ReadEvent()) << "the priming event";
  HttpClient caller = server.Connect();
  caller.Post(LegacyCall(1, "heeds_cancel"), In(session));
  ASSERT_TRUE(server.gate->WaitArrived());

  HttpClient client = server.Connect();
  client.Send("DELETE", In(session));
  EXPECT_EQ(client.Read().status, 200);
  client.Post(Legacy(1, "ping"), In(session));
  EXPECT_EQ(client.Read().status, 404);
  EXPECT_TRUE(server.gate->WaitOpen()) << "its calls are taken back";
  EXPECT_FALSE(own.ReadEvent()) << "its streams end";
}

TEST(Session, FailedInitializeMakesNone) {
  HttpTestServer server;
  HttpClient client = server.Connect();
  client.Post(Legacy(1, "initialize", {{"protocolVersion", 7}}));
  const Reply reply = client.Read();
  EXPECT_EQ(reply.json()["error"]["code"], -32602) << reply.body;
  EXPECT_EQ(reply.header("mcp-session-id"), "");
}

TEST(Session, IdsOfDifferentClientsNeverMeet) {
  HttpTestServer server;
  const std::string a = server.StartSession();
  const std::string b = server.StartSession();
  EXPECT_NE(a, b);
  HttpClient first = server.Connect();
  first.Post(LegacyCall(1, "held"), In(a));
  ASSERT_TRUE(server.gate->WaitArrived());
  HttpClient second = server.Connect();
  second.Post(
      {{"jsonrpc", "2.0"}, {"method", "notifications/cancelled"}, {"params", {{"requestId", 1}}}},
      In(b));
  EXPECT_EQ(second.Read().status, 202);
  server.gate->Open();
  EXPECT_EQ(first.Read().json()["result"]["content"][0]["text"], "released");
}

TEST(Session, CancelledCallsEndTheirStreamWithoutAnswer) {
  HttpTestServer server;
  const std::string session = server.StartSession();
  HttpClient caller = server.Connect();
  caller.Post(LegacyCall(1, "heeds_cancel"), In(session));
  ASSERT_TRUE(server.gate->WaitArrived());
  HttpClient client = server.Connect();
  client.Post(
      {{"jsonrpc", "2.0"}, {"method", "notifications/cancelled"}, {"params", {{"requestId", 1}}}},
      In(session));
  EXPECT_EQ(client.Read().status, 202);
  EXPECT_EQ(caller.ReadHead().status, 200);
  const auto event = caller.ReadEvent();
  EXPECT_TRUE(!event || event->data.empty()) << event->data;
}

TEST(Session, BothErasShareThePortAndTheConnection) {
  HttpTestServer server;
  HttpClient client = server.Connect();
  client.PostModern(ModernRequest("server-discover-probe-1", "server/discover"));
  EXPECT_EQ(client.Read().json()["result"]["resultType"], "complete");
  client.Post(Initialize("2025-11-25"));
  const std::string session = client.Read().header("mcp-session-id");
  client.Post(LegacyCall(1, "echo"), In(session));
  EXPECT_FALSE(client.Read().json()["result"].contains("resultType"));
  client.PostModern(CallTool(1, "echo"));
  EXPECT_EQ(client.Read().json()["result"]["resultType"], "complete");
}

TEST(Session, BatchesBelongToOneRevision) {
  HttpTestServer server;
  const Json batch = Json::array({LegacyCall(1, "echo"), LegacyCall(2, "echo")});
  const std::string with = server.StartSession("2025-03-26");
  HttpClient client = server.Connect();
  client.Post(batch, In(with));
  EXPECT_EQ(client.Read().json().size(), 2u);
  client.Post(Json::array({{{"jsonrpc", "2.0"}, {"method", "notifications/initialized"}}}),
              In(with));
  EXPECT_EQ(client.Read().status, 202);
  const std::string without = server.StartSession("2025-11-25");
  client.Post(batch, In(without));
  const Reply refused = client.Read();
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.json()["error"]["code"], -32600);
}

TEST(LegacyStream, PrimesNewClientsOnly) {
  HttpTestServer server;
  for (const char* version : {"2025-06-18", "2025-11-25"}) {
    const std::string session = server.StartSession(version);
    HttpClient client = server.Connect();
    client.Post(WithProgress(LegacyCall(1, "count", {{"to", 2}})), In(session));
    EXPECT_EQ(client.ReadHead().header("content-type"), "text/event-stream");
    auto event = client.ReadEvent();
    ASSERT_TRUE(event);
    if (version == std::string("2025-11-25")) {
      EXPECT_EQ(event->data, "");
      EXPECT_NE(event->id, "");
      EXPECT_NE(event->retry, "");
      event = client.ReadEvent();
    }
    for (int i = 1; i <= 2; ++i) {
      ASSERT_TRUE(event);
      EXPECT_NE(event->id, "");
      EXPECT_EQ(event->json()["params"]["progress"], i);
      event = client.ReadEvent();
    }
    EXPECT_TRUE(event->json().contains("result"));
    EXPECT_FALSE(client.ReadEvent());
  }
}

// Hanging up is not cancelling: the call goes on, and what it sends waits for the client.
TEST(LegacyStream, IsResumedWhereItBroke) {
  HttpTestServer server;
  const std::string session = server.StartSession();
  std::string last;
  {
    HttpClient client = server.Connect();
    client.Post(WithProgress(LegacyCall(7, "held")), In(session));
    client.ReadHead();
    EXPECT_EQ(client.ReadEvent()->data, "");
    const auto first = client.ReadEvent();
    EXPECT_EQ(first->json()["params"]["progress"], 1);
    last = first->id;
  }
  ASSERT_TRUE(server.gate->WaitArrived());
  server.gate->Open();

  HttpClient resumed = OpenStream(server, session, last);
  const auto priming = resumed.ReadEvent();
  EXPECT_EQ(priming->data, "");
  EXPECT_EQ(priming->id, last);
  EXPECT_EQ(resumed.ReadMessage()["params"]["progress"], 2);
  const Json answer = resumed.ReadMessage();
  EXPECT_EQ(answer["id"], 7);
  EXPECT_EQ(answer["result"]["content"][0]["text"], "released");
  EXPECT_FALSE(resumed.ReadEvent()) << "the stream has ended";

  // It may be read once more: perhaps the answer got lost on its way.
  HttpClient again = OpenStream(server, session, last);
  EXPECT_EQ(again.ReadEvent()->data, "");
  EXPECT_EQ(again.ReadMessage()["params"]["progress"], 2);
  EXPECT_EQ(again.ReadMessage()["id"], 7);
}

TEST(LegacyStream, IsTakenOverWhileTheOldConnectionStillStands) {
  HttpTestServer server;
  const std::string session = server.StartSession();
  HttpClient client = server.Connect();
  client.Post(WithProgress(LegacyCall(7, "held")), In(session));
  client.ReadHead();
  const auto priming = client.ReadEvent();
  HttpClient resumed = OpenStream(server, session, priming->id);
  EXPECT_EQ(resumed.ReadEvent()->data, "");
  EXPECT_EQ(resumed.ReadMessage()["params"]["progress"], 1);
  server.gate->Open();
  EXPECT_EQ(resumed.ReadMessage()["params"]["progress"], 2);
  EXPECT_EQ(resumed.ReadMessage()["id"], 7);
}

TEST(LegacyStream, IsSuspendedWhenTheCallWantsIt) {
  HttpTestServer server;
  const std::string session = server.StartSession();
  HttpClient client = server.Connect();
  client.Post(WithProgress(LegacyCall(7, "suspend")), In(session));
  client.ReadHead();
  std::string last = client.ReadEvent()->id;
  const auto progress = client.ReadEvent();
  EXPECT_EQ(progress->json()["params"]["progress"], 1);
  EXPECT_FALSE(client.ReadEvent()) << "the answer ends, the call does not";
  HttpClient resumed = OpenStream(server, session, progress->id);
  EXPECT_EQ(resumed.ReadEvent()->data, "");
  server.gate->Open();
  EXPECT_EQ(resumed.ReadMessage()["params"]["progress"], 2);
  EXPECT_EQ(resumed.ReadMessage()["id"], 7);
  EXPECT_FALSE(resumed.ReadEvent());
}

TEST(LegacyStream, UnknownEventsAreRefused) {
  HttpTestServer server;
  const std::string session = server.StartSession();
  for (const char* id : {"nonsense", "77-1", "1-1"}) {
    HttpClient client = server.Connect();
    Headers headers = In(session);
    headers.emplace_back("Last-Event-ID", id);
    client.Send("GET", headers);
    EXPECT_EQ(client.Read().status, 400) << id;
  }
}

TEST(LegacyStream, NoticesComeOnTheSessionsOwn) {
  HttpTestServer server;
  const std::string session = server.StartSession();
  HttpClient client = server.Connect();
  std::string last;
  {
    HttpClient own = OpenStream(server, session);
    EXPECT_EQ(own.ReadEvent()->data, "");
    client.Post(LegacyCall(1, "change"), In(session));
    EXPECT_EQ(client.Read().status, 200);
    const auto notice = own.ReadEvent();
    EXPECT_EQ(notice->json()["method"], "notifications/tools/list_changed");
    last = notice->id;
  }
  client.Post(LegacyCall(2, "change"), In(session));  // while nobody listens
  EXPECT_EQ(client.Read().status, 200);
  HttpClient again = OpenStream(server, session, last);
  EXPECT_EQ(again.ReadEvent()->data, "");
  EXPECT_EQ(again.ReadMessage()["method"], "notifications/tools/list_changed");
}

TEST(LegacyStream, CarriesRequestsToTheClient) {
  HttpTestServer server;
  const std::string session = server.StartSession("2025-06-18", {{"elicitation", Json::object()}});
  HttpClient caller = server.Connect();
  caller.Post(LegacyCall(1, "ask"), In(session));
  EXPECT_EQ(caller.ReadHead().header("content-type"), "text/event-stream");
  const Json question = caller.ReadMessage();
  EXPECT_EQ(question["method"], "elicitation/create");
  HttpClient client = server.Connect();
  client.Post({{"jsonrpc", "2.0"},
               {"id", question["id"]},
               {"result", {{"action", "accept"}, {"content", {{"name", "Ada"}}}}}},
              In(session));
  EXPECT_EQ(client.Read().status, 202);
  EXPECT_EQ(caller.ReadMessage()["result"]["content"][0]["text"], "Hello Ada");
}

TEST(LegacyStream, AStopEndsThemAll) {
  HttpTestServer server;
  const std::string session = server.StartSession();
  HttpClient own = OpenStream(server, session);
  EXPECT_TRUE(own.ReadEvent());
  HttpClient caller = server.Connect();
  caller.Post(LegacyCall(1, "heeds_cancel"), In(session));
  ASSERT_TRUE(server.gate->WaitArrived());
  server.Stop();
  EXPECT_TRUE(server.ended_well);
  EXPECT_FALSE(own.ReadEvent());
  const Reply reply = caller.Read();
  EXPECT_NE(reply.body.find("server is stopping"), std::string::npos) << reply.body;
}

}  // namespace
}  // namespace mpnanny
