// What the HTTP layer lets through: methods, headers, sizes, times. Over real sockets.
#include <gtest/gtest.h>

#include "tests/http/http_test_server.h"

namespace mpnanny {
namespace {

using std::chrono::milliseconds;

int StatusOfRaw(const HttpTestServer& server, std::string_view bytes) {
  HttpClient client = server.Connect();
  client.SendRaw(bytes);
  return client.Read().status;
}

int StatusWith(const HttpTestServer& server, const Headers& headers,
               const std::string& method = "POST") {
  HttpClient client = server.Connect();
  const std::string body = method == "POST" ? DumpJson(ModernRequest(1, "tools/list")) : "";
  Headers all = {{"MCP-Protocol-Version", "2026-07-28"}, {"Mcp-Method", "tools/list"}};
  all.insert(all.end(), headers.begin(), headers.end());
  client.Send(method, all, body);
  return client.Read().status;
}

// The server still answers, on a connection of its own.
void ExpectAlive(const HttpTestServer& server) {
  HttpClient client = server.Connect();
  client.PostModern(CallTool(1, "echo", {{"text", "alive"}}));
  EXPECT_EQ(client.Read().status, 200);
}

TEST(Http, RefusesWhatIsNoRequestOfOurs) {
  HttpTestServer server;
  const std::string host = "Host: localhost\r\n";
  EXPECT_EQ(StatusOfRaw(server, "nonsense\r\n\r\n"), 400);
  EXPECT_EQ(StatusOfRaw(server, "POST /mcp HTTP/9.9\r\n\r\n"), 400);
  EXPECT_EQ(StatusOfRaw(server, "BREW /mcp HTTP/1.1\r\n" + host + "\r\n"), 400);
  EXPECT_EQ(StatusOfRaw(server, "GET / HTTP/1.1\r\n" + host + "\r\n"), 404);
  EXPECT_EQ(StatusOfRaw(server, "GET /mcp/x HTTP/1.1\r\n" + host + "\r\n"), 404);
  EXPECT_EQ(StatusOfRaw(server, "GET /mcp HTTP/1.1\r\n\r\n"), 400) << "no Host";
  EXPECT_EQ(StatusOfRaw(server, "GET /mcp HTTP/1.1\r\nHost localhost\r\n\r\n"), 400);
  EXPECT_EQ(StatusOfRaw(server, "POST /mcp HTTP/1.1\r\n" + host + "Content-Length: 1\r\n" +
                                    "Content-Length: 2\r\n\r\n{}"),
            400);
  EXPECT_EQ(StatusOfRaw(server, "POST /mcp HTTP/1.1\r\n" + host + "Content-Length: -1\r\n\r\n"),
            400);
  EXPECT_EQ(StatusOfRaw(server, "\r\n\r\n"), 400);
  ExpectAlive(server);
}

TEST(Http, ChecksMethodAndMediaTypes) {
  HttpTestServer server;
  EXPECT_EQ(StatusWith(server, {}), 200);
  for (const char* method : {"PUT", "PATCH", "OPTIONS", "HEAD", "TRACE"}) {
    EXPECT_EQ(StatusWith(server, {}, method), 405) << method;
  }
  EXPECT_EQ(StatusWith(server, {}, "GET"), 405) << "no session";
  EXPECT_EQ(StatusWith(server, {}, "DELETE"), 405) << "no session";
  EXPECT_EQ(StatusWith(server, {{"Content-Type", "text/plain"}}), 415);
  EXPECT_EQ(StatusWith(server, {{"Content-Type", ""}}), 415);
  EXPECT_EQ(StatusWith(server, {{"Content-Type", "Application/JSON; charset=utf-8"}}), 200);
  EXPECT_EQ(StatusWith(server, {{"Content-Encoding", "gzip"}}), 415);
  EXPECT_EQ(StatusWith(server, {{"Accept", "text/html"}}), 406);
  EXPECT_EQ(StatusWith(server, {{"Accept", "application/json"}}), 406);
  EXPECT_EQ(StatusWith(server, {{"Accept", "text/event-stream"}}), 406);
  EXPECT_EQ(StatusWith(server, {{"Accept", ""}}), 200);
  EXPECT_EQ(StatusWith(server, {{"Accept", "*/*"}}), 200);
  EXPECT_EQ(StatusWith(server, {{"Accept", "text/*, application/*;q=0.5"}}), 200);
  HttpClient client = server.Connect();
  client.Send("PUT", {});
  EXPECT_EQ(client.Read().header("allow"), "GET, POST, DELETE");
}

TEST(Http, ChecksHostAndOrigin) {
  HttpTestServer server;
  EXPECT_EQ(StatusWith(server, {{"Host", "evil.example"}}), 403);
  EXPECT_EQ(StatusWith(server, {{"Origin", "http://evil.example"}}), 403);
  EXPECT_EQ(StatusWith(server, {{"Origin", "http://localhost:1234"}}), 200);
  HttpClient client = server.Connect();
  client.Send("POST", {{"Origin", "http://localhost:1234"}}, "{");
  EXPECT_EQ(client.Read().header("access-control-allow-origin"), "");
}

// Only pages that were allowed by name may read answers; the token is still wanted.
TEST(Http, LetsPagesOfAllowedOriginsIn) {
  HttpServerOptions options;
  options.allow_origins = {"https://app.example"};
  options.token = "s3cret";
  HttpTestServer server(options);
  HttpClient page = server.Connect();
  page.Send("OPTIONS", {{"Origin", "https://app.example"},
                        {"Access-Control-Request-Method", "POST"},
                        {"Access-Control-Request-Headers", "authorization,mcp-method"}});
  const Reply preflight = page.Read();
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.header("access-control-allow-origin"), "https://app.example");
  EXPECT_EQ(preflight.header("access-control-allow-headers"), "authorization,mcp-method");
  page.Send("GET", {{"Origin", "https://app.example"}});
  const Reply refused = page.Read();
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.header("access-control-allow-origin"), "https://app.example");
  HttpClient other = server.Connect();
  other.Send("OPTIONS", {{"Origin", "http://localhost:1"},
                         {"Access-Control-Request-Method", "POST"},
                         {"Authorization", "Bearer s3cret"}});
  const Reply none = other.Read();
  EXPECT_EQ(none.status, 405);
  EXPECT_EQ(none.header("access-control-allow-origin"), "");
}

TEST(Http, WantsTheToken) {
  HttpServerOptions options;
  options.token = "s3cret";
  HttpTestServer server(options);
  EXPECT_EQ(StatusWith(server, {{"Authorization", "Bearer s3cret"}}), 200);
  EXPECT_EQ(StatusWith(server, {{"Authorization", "Bearer wrong"}}), 401);
  HttpClient client = server.Connect();
  client.Send("GET", {});
  const Reply reply = client.Read();
  EXPECT_EQ(reply.status, 401);
  EXPECT_EQ(reply.header("www-authenticate"), "Bearer");
}

TEST(Http, BoundsTheHead) {
  HttpTestServer server;
  EXPECT_EQ(StatusWith(server, {{"X-Long", std::string(9000, 'x')}}), 400);
  Headers many;
  for (int i = 0; i < 200; ++i) many.emplace_back("X-" + std::to_string(i), "x");
  EXPECT_EQ(StatusWith(server, many), 400);
  EXPECT_EQ(StatusOfRaw(server, "GET /" + std::string(9000, 'x') + " HTTP/1.1\r\n\r\n"), 414);
  {
    HttpClient client = server.Connect();  // one line without end
    const std::string part(64u << 10, 'x');
    for (int i = 0; i < 64 && client.SendRaw(part); ++i) {
    }
    EXPECT_TRUE(client.ReadsEnd());
  }
  ExpectAlive(server);
}

TEST(Http, BoundsTheBody) {
  HttpServerOptions options;
  options.limits.body_bytes = 10'000;
  HttpTestServer server(options);
  const auto status = [&](size_t bytes) {
    HttpClient client = server.Connect();
    client.Send("POST", {}, std::string(bytes, ' '));
    return client.Read().status;
  };
  EXPECT_EQ(status(10'001), 413);
  EXPECT_EQ(status(5'000'000), 413) << "the answer arrives although the body was not read";
  EXPECT_EQ(status(10'000), 400) << "read, and no JSON";
  HttpClient huge = server.Connect();
  huge.Send("POST",
            {{"Content-Length", "99999999999999999999999"}, {"Content-Type", "application/json"}});
  EXPECT_EQ(huge.Read().status, 413);
  ExpectAlive(server);
}

TEST(Http, RefusesBodiesInChunks) {
  HttpTestServer server;
  for (const char* chunk : {"5\r\nhello\r\n0\r\n\r\n", "-1\r\n\r\n", "ffffffffffffffff\r\nx"}) {
    EXPECT_EQ(StatusOfRaw(server, std::string("POST /mcp HTTP/1.1\r\nHost: localhost\r\n"
                                              "Content-Type: application/json\r\n"
                                              "Transfer-Encoding: chunked\r\n\r\n") +
                                      chunk),
              411);
  }
  EXPECT_EQ(StatusWith(server, {{"Content-Length", ""}}), 411);
  ExpectAlive(server);
}

TEST(Http, CutsOffSlowHeads) {
  HttpServerOptions options;
  options.limits.head = milliseconds(200);
  HttpTestServer server(options);
  HttpClient client = server.Connect();
  client.SendRaw("POST /mcp HTTP/1.1\r\n");
  for (int i = 0; i < 400 && client.SendRaw("X"); ++i) {  // never silent for long
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_TRUE(client.ReadsEnd());
  ExpectAlive(server);
}

TEST(Http, CutsOffSlowBodies) {
  HttpServerOptions options;
  options.limits.body = milliseconds(200);
  HttpTestServer server(options);
  HttpClient client = server.Connect();
  client.SendRaw(
      "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: 100000\r\n\r\n");
  for (int i = 0; i < 400 && client.SendRaw(" "); ++i) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_TRUE(client.ReadsEnd());
  ExpectAlive(server);
}

TEST(Http, CutsOffReadersThatTakeNothing) {
  HttpServerOptions options;
  options.limits.stall = milliseconds(200);
  HttpTestServer server(options);
  HttpClient client(server.port(), /*receive_buffer=*/4096);
  client.PostModern(CallTool(1, "large", {{"bytes", 30'000'000}}));
  // However long the answer takes to be made, it is the reader that stalls.
  EXPECT_EQ(client.ReadHead().status, 200);
  std::this_thread::sleep_for(milliseconds(1500));
  // What is in the buffers comes, then the end, long before the whole.
  EXPECT_TRUE(client.ReadsEnd());
  EXPECT_LT(client.dropped().size(), 30'000'000u);
  ExpectAlive(server);
}

TEST(Http, KeepsConnectionsAndAnswersInOrder) {
  HttpTestServer server;
  HttpClient client = server.Connect();
  for (int i = 0; i < 300; ++i) client.PostModern(CallTool(i, "echo"));  // all at once
  for (int i = 0; i < 300; ++i) {
    const Reply reply = client.Read();
    ASSERT_EQ(reply.status, 200);
    ASSERT_EQ(reply.json()["id"], i);
  }
  client.PostModern(ModernRequest("x", "no/such/method"));
  EXPECT_EQ(client.Read().status, 404);
  client.PostModern(CallTool(1, "echo"));
  EXPECT_EQ(client.Read().status, 200) << "an error of the protocol does not end the connection";
}

TEST(Http, HeaderValuesAreNotUrls) {
  HttpTestServer server;
  HttpClient client = server.Connect();
  const std::string uri = "test://a%2Fb%0d%0aX: y";
  Json request = ModernRequest(1, "resources/read", {{"uri", uri}});
  client.PostModern(request);
  const Json answer = client.Read().json();
  EXPECT_NE(answer["error"]["code"], -32020) << DumpJson(answer);
}

TEST(Http, EndsConnectionsThatWantIt) {
  HttpTestServer server;
  HttpClient client = server.Connect();
  client.Send("GET", {{"Connection", "close"}});
  EXPECT_EQ(client.Read().header("connection"), "close");
  EXPECT_TRUE(client.ReadsEnd());
  HttpClient old = server.Connect();
  old.SendRaw("GET /mcp HTTP/1.0\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(old.Read().status, 405);
  EXPECT_TRUE(old.ReadsEnd());
}

TEST(Http, SaysSoWhenThereAreTooManyConnections) {
  HttpServerOptions options;
  options.limits.connections = 4;
  HttpTestServer server(options);
  std::vector<HttpClient> taken;
  for (int i = 0; i < 4; ++i) {  // all busy: one that were idle would make room
    taken.push_back(server.Connect());
    taken.back().PostModern(ModernRequest(1, "subscriptions/listen",
                                          {{"notifications", {{"toolsListChanged", true}}}}));
    EXPECT_EQ(taken.back().ReadHead().status, 200);
  }
  HttpClient surplus = server.Connect();
  surplus.PostModern(CallTool(1, "echo"));
  const Reply reply = surplus.Read();
  EXPECT_EQ(reply.status, 503);
  EXPECT_NE(reply.header("retry-after"), "");
  taken.pop_back();
  int status = 503;
  for (int i = 0; i < 1000 && status == 503; ++i) {
    HttpClient again = server.Connect();
    again.PostModern(CallTool(1, "echo"));
    status = again.Read().status;
  }
  EXPECT_EQ(status, 200) << "a place is free again";
}

}  // namespace
}  // namespace mpnanny
