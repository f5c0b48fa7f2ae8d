// What a legacy client finds when it comes back to a stream, and what it may not cost. Over real
// sockets.
#include <gtest/gtest.h>

#include "tests/http/http_test_server.h"

namespace mpnanny {
namespace {

using std::chrono::milliseconds;

Headers InSession(const std::string& session) { return {{"Mcp-Session-Id", session}}; }

void Cancel(const HttpTestServer& server, const std::string& session, int id) {
  HttpClient client = server.Connect();
  client.Post(
      {{"jsonrpc", "2.0"}, {"method", "notifications/cancelled"}, {"params", {{"requestId", id}}}},
      InSession(session));
  EXPECT_EQ(client.Read().status, 202);
}

int Resume(const HttpTestServer& server, const std::string& session, const std::string& after) {
  HttpClient client = server.Connect();
  Headers headers = InSession(session);
  headers.emplace_back("Last-Event-ID", after);
  client.Send("GET", headers);
  return client.ReadHead().status;
}

// A server that sends something every 10 ms, and a call there that runs until it is cancelled.
struct RunningCall {
  RunningCall() {
    caller.Post(LegacyCall(1, "heeds_cancel"), InSession(session));
    caller.ReadHead();
  }

  static HttpServerOptions Options() {
    HttpServerOptions options;
    options.silence = milliseconds(10);
    return options;
  }

  HttpTestServer server{Options()};
  std::string session = server.StartSession();
  HttpClient caller = server.Connect();
};

// With an id clients would come back for the response, which never comes, again and again.
TEST(Resume, ACancelledCallGivesNoIdToComeBackWith) {
  HttpTestServer server;
  const std::string session = server.StartSession();
  HttpClient caller = server.Connect();
  caller.Post(LegacyCall(1, "heeds_cancel"), InSession(session));
  ASSERT_TRUE(server.gate->WaitArrived());
  Cancel(server, session, 1);
  const Reply head = caller.ReadHead();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.header("content-type"), "text/event-stream");
  EXPECT_FALSE(caller.ReadEvent());
}

TEST(Resume, AStreamThatIsReadToItsEndIsNotOfferedAgain) {
  RunningCall call;
  const auto priming = call.caller.ReadEvent();
  ASSERT_TRUE(priming);
  ASSERT_TRUE(call.server.gate->WaitArrived());
  Cancel(call.server, call.session, 1);
  EXPECT_FALSE(call.caller.ReadEvent()) << "it ends without an answer";
  EXPECT_EQ(Resume(call.server, call.session, priming->id), 405) << "clients stop at this, quietly";
}

TEST(Resume, FromAnEventThatNeverWasIsRefused) {
  RunningCall call;
  const auto priming = call.caller.ReadEvent();
  ASSERT_TRUE(priming);
  const std::string stream = priming->id.substr(0, priming->id.find('-'));
  EXPECT_EQ(Resume(call.server, call.session, stream + "-99"), 400);
  Cancel(call.server, call.session, 1);
}

TEST(Resume, StreamsThatRunAreKeptWhateverComesAfter) {
  HttpServerOptions options;
  options.sessions.kept_streams = 2;
  HttpTestServer server(options);
  const std::string session = server.StartSession("2025-11-25", {{"elicitation", Json::object()}});
  std::string first;
  for (int i = 0; i < 4; ++i) {
    HttpClient caller = server.Connect();
    caller.Post(LegacyCall(i, "ask"), InSession(session));
    caller.ReadHead();
    const auto event = caller.ReadEvent();
    ASSERT_TRUE(event);
    if (i == 0) first = event->id;
    // No id: this one cannot be come back to, since the others have not ended.
    EXPECT_EQ(event->id.empty(), i >= 2) << i;
  }
  EXPECT_EQ(Resume(server, session, first), 200);
}

TEST(Resume, ASessionWithARunningCallIsInUse) {
  HttpServerOptions options;
  options.sessions.most = 1;
  options.silence = milliseconds(10);
  HttpTestServer server(options);
  const std::string session = server.StartSession();
  {
    HttpClient caller = server.Connect();
    caller.Post(LegacyCall(1, "heeds_cancel"), InSession(session));
    caller.ReadHead();
    ASSERT_TRUE(server.gate->WaitArrived());
  }  // gone; its call runs on
  HttpClient other = server.Connect();
  other.Post(Initialize("2025-11-25"));
  EXPECT_EQ(other.Read().status, 503);
  Cancel(server, session, 1);
  ASSERT_TRUE(server.gate->WaitOpen());
  int status = 503;
  for (int i = 0; i < 1000 && status == 503; ++i) {
    HttpClient again = server.Connect();
    again.Post(Initialize("2025-11-25"));
    status = again.Read().status;
  }
  EXPECT_EQ(status, 200);
}

TEST(LegacyErrors, AreInTheBodyOfA200UnlessItIsNoRequest) {
  HttpTestServer server;
  const std::string session = server.StartSession();
  const auto answer = [&](const Json& message) {
    HttpClient client = server.Connect();
    client.Post(message, InSession(session));
    return client.Read();
  };
  HttpClient running = server.Connect();
  running.Post(LegacyCall(1, "held"), InSession(session));
  ASSERT_TRUE(server.gate->WaitArrived());
  const Reply twice = answer(LegacyCall(1, "echo"));
  EXPECT_EQ(twice.status, 200);
  EXPECT_TRUE(twice.json().contains("error"));
  server.gate->Open();
  const Reply missing = answer(LegacyCall(2, "ask"));
  EXPECT_EQ(missing.status, 200);
  EXPECT_TRUE(missing.json().contains("error")) << "the client cannot be asked";
  EXPECT_EQ(answer({{"jsonrpc", "2.0"}, {"id", nullptr}, {"method", "ping"}}).status, 400);
  EXPECT_EQ(answer({{"id", 1}, {"method", "ping"}}).status, 400);
  EXPECT_EQ(answer(Json::array()).status, 400);
}

TEST(LegacyErrors, LongTokensAreRefused) {
  HttpTestServer server;
  const std::string session = server.StartSession();
  const auto code = [&](const Json& message) {
    HttpClient client = server.Connect();
    client.Post(message, InSession(session));
    return client.Read().json().value("/error/code"_json_pointer, 0);
  };
  Json call = LegacyCall(1, "echo");
  call["params"]["_meta"]["progressToken"] = std::string(1025, 'x');
  EXPECT_EQ(code(call), -32602);
  call["params"]["_meta"]["progressToken"] = std::string(1024, 'x');
  EXPECT_EQ(code(call), 0);
  EXPECT_EQ(code(LegacyCall(std::string(1025, 'x'), "echo")), -32600);
  EXPECT_EQ(code(LegacyCall(std::string(1024, 'x'), "echo")), 0);
}

}  // namespace
}  // namespace mpnanny
