// Where a request ends and what belongs to it: bodies, upgrades, repeated headers, half a close.
// Over real sockets.
#include <gtest/gtest.h>

#include "tests/http/http_test_server.h"

namespace mpnanny {
namespace {

using std::chrono::milliseconds;

// A whole modern request as text.
std::string Raw(const Json& message, const std::string& target = "/mcp",
                const std::string& more = "", const std::string& host = "localhost") {
  const std::string body = DumpJson(message);
  return "POST " + target + " HTTP/1.1\r\nHost: " + host +
         "\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
         "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: " +
         message["method"].get<std::string>() + "\r\n" + more +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

Reply SendAndRead(const HttpTestServer& server, const std::string& bytes) {
  HttpClient client = server.Connect();
  client.SendRaw(bytes);
  return client.Read();
}

TEST(Framing, ABodyThatIsNotReadIsNoNextRequest) {
  HttpTestServer server;
  const std::string body = Raw(ModernRequest("smuggled", "tools/list"));
  const std::string length = "Content-Length: " + std::to_string(body.size()) + "\r\n";
  const std::string upgrade =
      "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
  const std::string get = "GET /mcp HTTP/1.1\r\n";
  const std::vector<std::string> heads = {get + length,
                                          get + upgrade + length,
                                          get + upgrade,
                                          "DELETE /mcp HTTP/1.1\r\n" + length,
                                          "HEAD /mcp HTTP/1.1\r\n" + length,
                                          get + "Content-Length: 0x1\r\n",
                                          get + "Transfer-Encoding: chunked\r\n",
                                          get + "X: y\n" + length};
  for (const std::string& head : heads) {
    HttpClient client = server.Connect();
    client.SendRaw(head + "Host: localhost\r\nAccept: */*\r\n\r\n" + body);
    const Reply reply = client.Read();
    EXPECT_GE(reply.status, 400) << head;
    EXPECT_EQ(reply.header("connection"), "close") << head;
    EXPECT_TRUE(client.ReadsEnd()) << head;
    EXPECT_EQ(client.dropped().find("smuggled"), std::string::npos) << head;
  }
}

TEST(Framing, AnUpgradeIsNotGoneAlongWith) {
  HttpTestServer server;
  const Reply reply = SendAndRead(server, Raw(ModernRequest(1, "tools/list"), "/mcp",
                                              "Connection: Upgrade\r\nUpgrade: h2c\r\n"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("connection"), "close");
}

TEST(Framing, RangesAreIgnored) {
  HttpTestServer server;
  for (const char* range : {"bytes=0-9", "bytes=999999-"}) {
    const Reply reply = SendAndRead(server, Raw(ModernRequest(1, "tools/list"), "/mcp",
                                                std::string("Range: ") + range + "\r\n"));
    EXPECT_EQ(reply.status, 200) << range;
    EXPECT_TRUE(reply.json().contains("result")) << range;
  }
}

TEST(Framing, TheConnectionHeaderIsAList) {
  HttpTestServer server;
  for (const char* value : {"Close", "close, TE", "TE\r\nConnection: close"}) {
    HttpClient client = server.Connect();
    client.SendRaw(
        Raw(ModernRequest(1, "tools/list"), "/mcp", std::string("Connection: ") + value + "\r\n"));
    EXPECT_EQ(client.Read().header("connection"), "close") << value;
    EXPECT_TRUE(client.ReadsEnd()) << value;
  }
}

TEST(Framing, TheTargetMayNameTheHost) {
  HttpTestServer server;
  const Json list = ModernRequest(1, "tools/list");
  EXPECT_EQ(SendAndRead(server, Raw(list, "http://localhost/mcp")).status, 200);
  EXPECT_EQ(SendAndRead(server, Raw(list, "http://127.0.0.1:80/mcp?x=1")).status, 200);
  EXPECT_EQ(SendAndRead(server, Raw(list, "http://localhost/other")).status, 404);
  EXPECT_EQ(SendAndRead(server, Raw(list, "http://localhost")).status, 404);
  EXPECT_EQ(SendAndRead(server, Raw(list, "http://evil.example/mcp")).status, 403);
  EXPECT_EQ(SendAndRead(server, Raw(list, "http://x@localhost/mcp")).status, 403);
  EXPECT_EQ(SendAndRead(server, Raw(list, "http:///mcp")).status, 403);
}

TEST(Framing, HeadersThatDecideStandOnce) {
  HttpTestServer server;
  const Json list = ModernRequest(1, "tools/list");
  for (const char* line :
       {"Host: localhost", "Mcp-Method: tools/list", "MCP-Protocol-Version: 2026-07-28",
        "Content-Type: application/json", "Origin: http://localhost\r\nOrigin: http://localhost",
        "Last-Event-ID: 1-1\r\nLast-Event-ID: 1-2", "Authorization: a\r\nAuthorization: a",
        "Mcp-Session-Id: a\r\nMcp-Session-Id: a", "Mcp-Name: a\r\nMcp-Name: b"}) {
    EXPECT_EQ(SendAndRead(server, Raw(list, "/mcp", std::string(line) + "\r\n")).status, 400)
        << line;
  }
  std::string apart = Raw(list);
  const std::string both = "Accept: application/json, text/event-stream";
  apart.replace(apart.find(both), both.size(),
                "Accept: application/json\r\nAccept: text/event-stream");
  EXPECT_EQ(SendAndRead(server, apart).status, 200) << "Accept is one list, in however many lines";
}

// A legacy client that has sent everything may say so; it is still there to read.
TEST(Framing, ALegacyClientMayBeDoneSending) {
  HttpServerOptions options;
  options.silence = milliseconds(100);
  HttpTestServer server(options);
  const std::string session = server.StartSession();
  HttpClient client = server.Connect();
  client.Post(LegacyCall(1, "held"), {{"Mcp-Session-Id", session}});
  client.ShutdownWrite();
  ASSERT_TRUE(server.gate->WaitArrived());
  EXPECT_EQ(client.ReadHead().status, 200);
  server.gate->Open();
  EXPECT_EQ(client.ReadMessage()["result"]["content"][0]["text"], "released");
}

// Closing is how a modern client takes a request back, and looks the same at first.
TEST(Framing, AModernClientThatIsDoneSendingIsGone) {
  HttpServerOptions options;
  options.silence = milliseconds(10);
  HttpTestServer server(options);
  HttpClient client = server.Connect();
  client.PostModern(CallTool(1, "heeds_cancel"));
  EXPECT_EQ(client.ReadHead().status, 200);
  ASSERT_TRUE(server.gate->WaitArrived());
  client.ShutdownWrite();
  EXPECT_TRUE(server.gate->WaitOpen()) << "the tool was told";
  EXPECT_TRUE(client.ReadsEnd());
  EXPECT_EQ(client.dropped().find("0\r\n\r\n"), std::string::npos)
      << "the answer does not look whole";
}

TEST(Framing, TheLongestIdleConnectionMakesRoom) {
  HttpServerOptions options;
  options.limits.connections = 4;
  HttpTestServer server(options);
  std::vector<HttpClient> idle;
  for (int i = 0; i < 4; ++i) {
    idle.push_back(server.Connect());
    if (i == 0) continue;  // never sends a byte
    idle.back().PostModern(CallTool(1, "echo"));
    EXPECT_EQ(idle.back().Read().status, 200);
  }
  HttpClient next = server.Connect();
  next.PostModern(CallTool(1, "echo"));
  EXPECT_EQ(next.Read().status, 200);
  EXPECT_TRUE(idle.front().ReadsEnd());
  idle.back().PostModern(CallTool(2, "echo"));
  EXPECT_EQ(idle.back().Read().status, 200) << "the newest is still served";
}

TEST(Framing, AConnectionWithoutARequestEndsSoon) {
  HttpServerOptions options;
  options.limits.head = milliseconds(50);
  HttpTestServer server(options);
  HttpClient silent = server.Connect();
  EXPECT_TRUE(silent.ReadsEnd());
}

}  // namespace
}  // namespace mpnanny
