// Revision 2026-07-28 over real sockets: stateless requests, streams, listeners, disconnection.
#include <gtest/gtest.h>

#include "tests/http/http_test_server.h"

namespace mpnanny {
namespace {

using std::chrono::milliseconds;

Json Listen(Json id) {
  return ModernRequest(std::move(id), "subscriptions/listen",
                       {{"notifications", {{"toolsListChanged", true}}}});
}

struct Case {
  const char* what;
  Json message;
  Headers headers;
  int status;
  int code;
};

TEST(Modern, ErrorsHaveTheirStatus) {
  HttpTestServer server;
  const Headers plain = {{"MCP-Protocol-Version", "2026-07-28"}, {"Mcp-Method", "tools/list"}};
  const auto method = [](const std::string& name) {
    return Headers{{"MCP-Protocol-Version", "2026-07-28"}, {"Mcp-Method", name}};
  };
  Json future = ModernRequest(1, "tools/list");
  future["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "v999.0.0";
  Json unknown = CallTool(1, "nope");
  Json no_version = ModernRequest(1, "tools/list");
  no_version.erase("jsonrpc");
  Headers call = method("tools/call");
  call.emplace_back("Mcp-Name", "nope");
  Headers version = {{"MCP-Protocol-Version", "v999.0.0"}, {"Mcp-Method", "tools/list"}};
  const std::vector<Case> cases = {
      {"no method header", ModernRequest(1, "tools/list"), {plain[0]}, 400, -32020},
      {"no version header", ModernRequest(1, "tools/list"), {plain[1]}, 400, -32020},
      {"other method", ModernRequest(1, "tools/list"), method("prompts/list"), 400, -32020},
      {"no _meta", Legacy(1, "tools/list"), plain, 400, -32602},
      {"other version", future, plain, 400, -32020},
      {"unknown version", future, version, 400, -32022},
      {"unknown method", ModernRequest(1, "no/such"), method("no/such"), 404, -32601},
      {"removed: ping", ModernRequest(1, "ping"), method("ping"), 404, -32601},
      {"removed: initialize", ModernRequest(1, "initialize"), method("initialize"), 404, -32601},
      {"unknown tool", unknown, call, 200, -32602},
      {"no JSON-RPC", no_version, plain, 400, -32600},
      {"a batch", Json::array({ModernRequest(1, "tools/list")}), plain, 400, -32600},
  };
  HttpClient client = server.Connect();
  for (const Case& each : cases) {
    client.Post(each.message, each.headers);
    const Reply reply = client.Read();
    EXPECT_EQ(reply.status, each.status) << each.what << ": " << reply.body;
    EXPECT_EQ(reply.json()["error"]["code"], each.code) << each.what << ": " << reply.body;
    EXPECT_EQ(reply.header("content-type"), "application/json") << each.what;
  }
  client.Send("POST", plain, "{\"jsonrpc\"");
  const Reply reply = client.Read();
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.json()["error"]["code"], -32700);
  EXPECT_TRUE(reply.json()["id"].is_null());
}

TEST(Modern, ACapabilityThatIsMissedIsABadRequest) {
  HttpTestServer server;
  HttpClient client = server.Connect();
  client.PostModern(CallTool(1, "ask"));
  const Reply reply = client.Read();
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.json()["error"]["code"], -32021);
}

TEST(Modern, NotificationsAreAcceptedWithoutAnswer) {
  HttpTestServer server;
  HttpClient client = server.Connect();
  client.Post(
      {{"jsonrpc", "2.0"}, {"method", "notifications/cancelled"}, {"params", {{"requestId", 1}}}},
      {{"MCP-Protocol-Version", "2026-07-28"}});
  const Reply reply = client.Read();
  EXPECT_EQ(reply.status, 202);
  EXPECT_EQ(reply.body, "");
}

// What it says of itself counts: with a session's id it neither escapes the header rules nor runs
// on in that session when the client has gone.
TEST(Modern, ASessionHeaderChangesNothing) {
  HttpTestServer server;
  const std::string session = server.StartSession();
  for (const std::string& id : {session, std::string("stale")}) {
    HttpClient client = server.Connect();
    client.Post(ModernRequest(1, "tools/list"), {{"Mcp-Session-Id", id},
                                                 {"MCP-Protocol-Version", "2026-07-28"},
                                                 {"Mcp-Method", "tools/list"}});
    const Reply reply = client.Read();
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.json()["result"]["resultType"], "complete");
    client.Post(ModernRequest(1, "tools/list"), {{"Mcp-Session-Id", id}});
    EXPECT_EQ(client.Read().json()["error"]["code"], -32020);
  }
  {
    HttpClient client = server.Connect();
    client.Post(CallTool(1, "heeds_cancel"), {{"Mcp-Session-Id", session},
                                              {"MCP-Protocol-Version", "2026-07-28"},
                                              {"Mcp-Method", "tools/call"},
                                              {"Mcp-Name", "heeds_cancel"}});
    ASSERT_TRUE(server.gate->WaitArrived());
  }
  EXPECT_TRUE(server.gate->WaitOpen()) << "the tool was told";
}

TEST(Modern, WhatIsNoRequestIsCheckedToo) {
  HttpTestServer server;
  HttpClient client = server.Connect();
  const Headers modern = {{"MCP-Protocol-Version", "2026-07-28"}, {"Mcp-Method", "ping"}};
  client.Post({{"jsonrpc", "2.0"}, {"id", nullptr}, {"method", "ping"}}, modern);
  const Reply null_id = client.Read();
  EXPECT_EQ(null_id.status, 400);
  EXPECT_EQ(null_id.json()["error"]["code"], -32600);
  client.Post({{"jsonrpc", "2.0"}, {"method", "notifications/cancelled"}},
              {{"MCP-Protocol-Version", "2099-01-01"}});
  const Reply unsupported = client.Read();
  EXPECT_EQ(unsupported.status, 400);
  EXPECT_EQ(unsupported.json()["error"]["code"], -32022);
}

TEST(Modern, PlainAnswersAreOneBody) {
  HttpTestServer server;
  HttpClient client = server.Connect();
  client.PostModern(CallTool(0, "echo", {{"text", "溢出"}}));
  const Reply reply = client.Read();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("content-type"), "application/json");
  EXPECT_EQ(reply.header("mcp-session-id"), "");
  EXPECT_EQ(reply.json()["id"], 0);
  EXPECT_EQ(reply.json()["result"]["content"][0]["text"], "溢出");
}

TEST(Modern, ProgressMakesAStream) {
  HttpTestServer server;
  HttpClient client = server.Connect();
  Json request = CallTool(1, "count", {{"to", 3}});
  request["params"]["_meta"]["progressToken"] = "p";
  client.PostModern(request);
  const Reply head = client.ReadHead();
  EXPECT_EQ(head.header("content-type"), "text/event-stream");
  EXPECT_EQ(head.header("cache-control"), "no-store");
  EXPECT_EQ(head.header("x-accel-buffering"), "no");
  for (int i = 1; i <= 3; ++i) {
    const auto event = client.ReadEvent();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->id, "");
    EXPECT_EQ(event->json()["params"]["progress"], i);
  }
  EXPECT_TRUE(client.ReadMessage().contains("result"));
  EXPECT_FALSE(client.ReadEvent());
  client.PostModern(CallTool(2, "echo"));
  EXPECT_EQ(client.Read().status, 200) << "the connection goes on";
}

TEST(Modern, SilenceMakesAStreamThatShowsLife) {
  HttpServerOptions options;
  options.silence = milliseconds(50);
  options.stream.comment_every = milliseconds(50);
  HttpTestServer server(options);
  HttpClient client = server.Connect();
  client.PostModern(CallTool(1, "held"));  // tells no progress: nobody asked
  EXPECT_EQ(client.ReadHead().header("content-type"), "text/event-stream");
  server.gate->Open();
  EXPECT_EQ(client.ReadMessage()["result"]["content"][0]["text"], "released");
  EXPECT_FALSE(client.ReadEvent());
}

TEST(Modern, HangingUpCancelsTheCall) {
  HttpTestServer server;
  {
    HttpClient client = server.Connect();
    client.PostModern(CallTool(1, "heeds_cancel"));
    ASSERT_TRUE(server.gate->WaitArrived());
  }
  EXPECT_TRUE(server.gate->WaitOpen()) << "the tool was told";
}

TEST(Modern, HangingUpOnAStreamCancelsTheCall) {
  HttpServerOptions options;
  options.silence = milliseconds(10);
  HttpTestServer server(options);
  {
    HttpClient client = server.Connect();
    client.PostModern(CallTool(1, "heeds_cancel"));
    EXPECT_EQ(client.ReadHead().status, 200);
    ASSERT_TRUE(server.gate->WaitArrived());
  }
  EXPECT_TRUE(server.gate->WaitOpen()) << "the tool was told";
}

TEST(Modern, ListenersHearWhatTheyAskedFor) {
  HttpTestServer server;
  HttpClient listener = server.Connect();
  listener.PostModern(Listen("sub"));
  EXPECT_EQ(listener.ReadHead().header("content-type"), "text/event-stream");
  EXPECT_EQ(listener.ReadMessage()["method"], "notifications/subscriptions/acknowledged");
  HttpClient client = server.Connect();
  client.PostModern(CallTool(1, "change"));
  EXPECT_EQ(client.Read().status, 200);
  const Json notice = listener.ReadMessage();
  EXPECT_EQ(notice["method"], "notifications/tools/list_changed");
  EXPECT_EQ(notice["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "sub");
}

TEST(Modern, CallsAreAnsweredBesideTwoHundredListeners) {
  HttpTestServer server;
  std::vector<HttpClient> listeners;
  for (int i = 0; i < 200; ++i) {
    listeners.push_back(server.Connect());
    listeners.back().PostModern(Listen(i));
  }
  for (HttpClient& each : listeners) {
    EXPECT_EQ(each.ReadHead().status, 200);
    EXPECT_EQ(each.ReadMessage()["method"], "notifications/subscriptions/acknowledged");
  }
  HttpClient client = server.Connect();
  for (int i = 0; i < 100; ++i) {
    client.PostModern(CallTool(i, "echo"));
    ASSERT_EQ(client.Read().status, 200);
  }
  client.PostModern(CallTool(1, "change"));
  EXPECT_EQ(client.Read().status, 200);
  for (HttpClient& each : listeners) {
    EXPECT_EQ(each.ReadMessage()["method"], "notifications/tools/list_changed");
  }
  // At the end of the server each gets its final result, and the stream is closed in order.
  server.Stop();
  EXPECT_TRUE(server.ended_well);
  for (size_t i = 0; i < listeners.size(); ++i) {
    const Json result = listeners[i].ReadMessage();
    EXPECT_EQ(result["id"], i);
    EXPECT_EQ(result["result"]["resultType"], "complete");
    EXPECT_FALSE(listeners[i].ReadEvent());
  }
}

TEST(Modern, RoomIsLeftBesideListeners) {
  HttpServerOptions options;
  options.limits.connections = 8;  // seven may listen
  HttpTestServer server(options);
  std::vector<HttpClient> listeners;
  for (int i = 0; i < 7; ++i) {
    listeners.push_back(server.Connect());
    listeners.back().PostModern(Listen(i));
    EXPECT_EQ(listeners.back().ReadHead().status, 200);
  }
  HttpClient client = server.Connect();
  client.PostModern(Listen("one too many"));
  const Reply refused = client.Read();
  EXPECT_EQ(refused.status, 503);
  EXPECT_NE(refused.header("retry-after"), "");
  EXPECT_TRUE(client.ReadsEnd());
  listeners.pop_back();
  int status = 503;
  for (int i = 0; i < 1000 && status == 503; ++i) {
    HttpClient again = server.Connect();
    again.PostModern(Listen("again"));
    status = again.ReadHead().status;
  }
  EXPECT_EQ(status, 200) << "its place is free again";
}

TEST(Modern, ToolsMayMirrorArgumentsInHeaders) {
  HttpTestServer server;
  HttpClient client = server.Connect();
  const Json call = CallTool(1, "mirrored", {{"region", "eu"}});
  Headers headers = {{"MCP-Protocol-Version", "2026-07-28"},
                     {"Mcp-Method", "tools/call"},
                     {"Mcp-Name", "mirrored"},
                     {"Mcp-Param-Region", "eu"}};
  client.Post(call, headers);
  EXPECT_EQ(client.Read().status, 200);
  headers.back().second = "us";
  client.Post(call, headers);
  const Reply refused = client.Read();
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.json()["error"]["code"], -32020);
}

}  // namespace
}  // namespace mpnanny
