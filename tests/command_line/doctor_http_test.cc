// `mpnanny doctor --http` against servers that listen and are not as they should be.
#include <gtest/gtest.h>
#include <httplib.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "base/child_process.h"
#include "base/json.h"
#include "server/doctor/http_checks.h"

namespace mpnanny {
namespace {

// A server on a free port of this machine that treats every POST alike.
class Listener {
 public:
  explicit Listener(httplib::Server::Handler handler) {
    server_.Post("/mcp", std::move(handler));
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    server_.wait_until_ready();
  }
  ~Listener() {
    server_.stop();
    thread_.join();
  }
  std::string Origin() const { return "http://127.0.0.1:" + std::to_string(port_); }

 private:
  httplib::Server server_;
  int port_ = -1;
  std::thread thread_;
};

HttpTarget At(const std::string& origin, const std::string& token = "",
              const std::string& path = "/mcp") {
  return {origin, path, token, std::chrono::seconds(10)};
}

std::string Only(const Checks& checks, CheckStatus status) {
  EXPECT_EQ(checks.size(), 1u);
  if (checks.empty()) return "";
  EXPECT_EQ(checks[0].status, status);
  return checks[0].name + ": " + checks[0].message + " -> " + checks[0].fix;
}

TEST(DoctorHttp, NothingListens) {
  std::string origin;
  {
    const Listener gone([](const httplib::Request&, httplib::Response&) {});
    origin = gone.Origin();
  }
  const std::string said = Only(CheckHttp(At(origin)), CheckStatus::kFailed);
  EXPECT_NE(said.find("Nothing listens at " + origin + "/mcp"), std::string::npos) << said;
  EXPECT_NE(said.find("ssh -N -L"), std::string::npos) << said;
}

TEST(DoctorHttp, StatusesAreExplained) {
  const Listener picky([](const httplib::Request& request, httplib::Response& response) {
    const std::string given = request.get_header_value("Authorization");
    response.status = given.empty() ? 401 : given == "Bearer right" ? 403 : 401;
    response.set_content("because", "text/plain");
  });
  const std::string none = Only(CheckHttp(At(picky.Origin())), CheckStatus::kFailed);
  EXPECT_NE(none.find("asks for a token"), std::string::npos) << none;
  const std::string wrong = Only(CheckHttp(At(picky.Origin(), "wrong")), CheckStatus::kFailed);
  EXPECT_NE(wrong.find("does not know this token"), std::string::npos) << wrong;
  const std::string host = Only(CheckHttp(At(picky.Origin(), "right")), CheckStatus::kFailed);
  EXPECT_NE(host.find("under this name"), std::string::npos) << host;
  EXPECT_NE(host.find("because"), std::string::npos) << host;
  const std::string path =
      Only(CheckHttp(At(picky.Origin(), "right", "/other")), CheckStatus::kFailed);
  EXPECT_NE(path.find("no MCP server at /other"), std::string::npos) << path;
}

TEST(DoctorHttp, APortOfAnotherProgram) {
  const Listener other([](const httplib::Request&, httplib::Response& response) {
    response.set_content("<html>hello</html>", "text/html");
  });
  const std::string said = Only(CheckHttp(At(other.Origin())), CheckStatus::kFailed);
  EXPECT_NE(said.find("<html>hello"), std::string::npos) << said;
  EXPECT_NE(said.find("another program"), std::string::npos) << said;
}

TEST(DoctorHttp, TlsIsNotSpoken) {
  const std::string said = Only(CheckHttp(At("https://mcp.example.org:443")), CheckStatus::kFailed);
  EXPECT_NE(said.find("no TLS"), std::string::npos) << said;
  EXPECT_NE(said.find("http://127.0.0.1"), std::string::npos) << said;
}

TEST(DoctorHttp, AnswersOfAnyShapeAreJudged) {
  for (const char* result :
       {R"({"protocolVersion":5})", "[]", "null", "7",
        R"({"protocolVersion":"2025-11-25","serverInfo":[],"capabilities":[]})"}) {
    const Listener odd([&](const httplib::Request&, httplib::Response& response) {
      response.set_content(std::string(R"({"jsonrpc":"2.0","id":1,"result":)") + result + "}",
                           "application/json");
    });
    const std::string said = Only(CheckHttp(At(odd.Origin())), CheckStatus::kFailed);
    EXPECT_NE(said.find("not what the protocol says"), std::string::npos) << said;
  }
}

// What a server says that never comes to an end: `first`, then a comment now and then.
httplib::Server::Handler Drip(const std::string& first) {
  return [first](const httplib::Request&, httplib::Response& response) {
    response.set_chunked_content_provider(
        "text/event-stream", [first](size_t offset, httplib::DataSink& sink) {
          const std::string text = offset == 0 ? first : ": x\n";
          if (offset != 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
          return sink.write(text.data(), text.size());
        });
  };
}

TEST(DoctorHttp, AnEndlessAnswerIsNotReadWithoutEnd) {
  const Listener slow(Drip(": hello\n"));
  HttpTarget target = At(slow.Origin());
  target.answer_within = std::chrono::seconds(1);
  const std::string said = Only(CheckHttp(target), CheckStatus::kFailed);
  EXPECT_NE(said.find("within 1 s"), std::string::npos) << said;
}

TEST(DoctorHttp, AStreamThatStaysOpenHasAnswered) {
  const Listener open(Drip(
      "data: {\"jsonrpc\":\"2.0\",\"id\":1,\ndata: \"result\":{\"protocolVersion\":\"2025-11-25\","
      "\"capabilities\":{},\"serverInfo\":{\"name\":\"other\",\"version\":\"1\"}}}\n\n"));
  HttpTarget target = At(open.Origin());
  target.answer_within = std::chrono::seconds(2);
  const Checks checks = CheckHttp(target);
  ASSERT_FALSE(checks.empty());
  EXPECT_EQ(checks.front().status, CheckStatus::kOk) << checks.front().message;
}

// The answers of the built program over stdio, handed on over HTTP: as JSON, then as event streams.
TEST(DoctorHttp, AServerThatAnswersIsWell) {
  for (const bool stream : {false, true}) {
    const auto child =
        ChildProcess::Start({MPNANNY_PROGRAM, "serve", "--root", MPNANNY_SOURCE_DIR});
    ASSERT_TRUE(child);
    const Listener bridge([&](const httplib::Request& request, httplib::Response& response) {
      const auto until = ChildProcess::Clock::now() + std::chrono::seconds(20);
      (*child)->WriteLine(request.body, until);
      const auto message = ParseJson(request.body);
      if (!message || !message->contains("id")) {
        response.status = 202;
        return;
      }
      const std::string answer = (*child)->ReadLine(until).text;
      if (stream) {
        response.set_content(": hello\r\n\r\nevent: message\r\ndata: " + answer + "\r\n\r\n",
                             "text/event-stream");
      } else {
        response.set_content(answer, "application/json");
      }
    });
    const Checks checks = CheckHttp(At(bridge.Origin()));
    ASSERT_EQ(checks.size(), 3u);
    for (const Check& check : checks) EXPECT_EQ(check.status, CheckStatus::kOk) << check.message;
  }
}

}  // namespace
}  // namespace mpnanny
