// Every case of http.jsonl, one after the other, to one process of the real program.
//
// After each the same process must still answer a good request, and in the end leave with code 0.
// A case beside `send`'s forms (corpus.h):
//   "send"     the whole request as bytes; {host} and {port} in texts are the server's
//   "post"     the body of a POST with the headers that a good client adds (a modern message's are
//              taken from it); "method" and "path" for others
//   "headers"  replace those or are added; null leaves one out
//   "session"  a legacy revision: in a session of it; "deleted": in one that has been ended
//   "half_close", "close", "wait", "drip", "drip_body": see exchange.h
//   "server"   "impatient": another server, whose limits of time are short
// Its `answer` has "status", one or a list (0: the connection ends without an answer), what
// corpus.h knows of the JSON-RPC message in the body, "no_header" and "no_body".
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/http_server.h"
#include "tests/hostile/corpus.h"
#include "tests/hostile/exchange.h"
#include "tests/hostile/program.h"

namespace mpnanny::hostile {
namespace {

using Headers = std::vector<std::pair<std::string, std::string>>;

void Set(Headers& headers, const std::string& name, const Json& value) {
  std::erase_if(headers, [&](const auto& header) { return header.first == name; });
  if (value.is_string()) headers.emplace_back(name, value);
}

std::string Replace(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

// What a good client repeats of a modern message in its headers.
void AddMirrors(const Json& message, Headers& headers) {
  const Json::json_pointer version("/params/_meta/io.modelcontextprotocol~1protocolVersion");
  if (!message.is_object() || !message.contains(version)) return;
  Set(headers, "MCP-Protocol-Version", message.at(version));
  Set(headers, "Mcp-Method", message.value("method", Json()));
  for (const char* name : {"name", "uri"}) {
    if (message["params"].contains(name)) Set(headers, "Mcp-Name", message["params"][name]);
  }
}

class Server {
 public:
  explicit Server(int port) : port_(port) {}

  HttpAnswer Run(const Json& test_case) {
    ExchangeOptions options;
    options.half_close = test_case.value("half_close", false);
    options.close = test_case.value("close", false);
    options.wait_for_end = test_case.value("wait", false);
    options.no_body = test_case["answer"].value("no_body", false);
    const std::string bytes = RequestOf(test_case);
    if (test_case.contains("drip")) options.drip_ms = test_case["drip"];
    if (test_case.contains("drip_body")) {
      options.drip_ms = test_case["drip_body"];
      options.drip_from = bytes.find("\r\n\r\n") + 4;
    }
    return Exchange(port_, bytes, options);
  }

  void ExpectAlive() {
    const HttpAnswer answer =
        Exchange(port_, Request("POST", "/mcp", {}, ModernRequest("alive", "server/discover")));
    EXPECT_EQ(answer.status, 200);
    const auto json = ParseJson(answer.body);
    ASSERT_TRUE(json) << answer.body;
    EXPECT_EQ(json->value("id", ""), "alive");
    EXPECT_TRUE(json->contains("result")) << answer.body;
  }

 private:
  std::string Substitute(const std::string& text) const {
    const std::string port = std::to_string(port_);
    return Replace(Replace(text, "{host}", "127.0.0.1:" + port), "{port}", port);
  }

  std::string RequestOf(const Json& test_case) {
    if (test_case.contains("send")) return Substitute(Bytes(test_case["send"]));
    Headers session;
    if (test_case.contains("session")) {
      const std::string& id = SessionOf(test_case["session"]);
      session = {{"Mcp-Session-Id", id}};
      if (test_case["session"] != "deleted") {
        session.emplace_back("MCP-Protocol-Version", test_case["session"]);
      }
    }
    const Json changes = test_case.value("headers", Json::object());
    return Request(test_case.value("method", "POST"), test_case.value("path", "/mcp"), session,
                   test_case.value("post", Json()), changes);
  }

  std::string Request(const std::string& method, const std::string& path, const Headers& session,
                      const Json& body, const Json& changes = Json::object()) const {
    Headers headers = {{"Host", "{host}"}, {"Accept", "application/json, text/event-stream"}};
    std::string bytes;
    if (!body.is_null()) {
      bytes = Bytes(body);
      headers.emplace_back("Content-Type", "application/json");
      headers.emplace_back("Content-Length", std::to_string(bytes.size()));
      AddMirrors(body, headers);
    }
    for (const auto& [name, value] : session) Set(headers, name, value);
    for (const auto& [name, value] : changes.items()) Set(headers, name, value);
    std::string head = method + " " + path + " HTTP/1.1\r\n";
    for (const auto& [name, value] : headers) head += name + ": " + value + "\r\n";
    return Substitute(head + "\r\n") + bytes;
  }

  // The id of a session of this revision, begun when it is first needed.
  const std::string& SessionOf(const std::string& revision) {
    std::string& id = sessions_[revision];
    if (!id.empty()) return id;
    const std::string asked = revision == "deleted" ? "2025-11-25" : revision;
    const HttpAnswer begun =
        Exchange(port_, Request("POST", "/mcp", {}, InitializeRequest("init", asked)));
    EXPECT_EQ(begun.status, 200) << begun.body;
    const auto given = begun.headers.find("mcp-session-id");
    EXPECT_NE(given, begun.headers.end()) << begun.body;
    if (given != begun.headers.end()) id = given->second;
    if (revision == "deleted") {
      Exchange(port_, Request("DELETE", "/mcp", {{"Mcp-Session-Id", id}}, nullptr));
    }
    return id;
  }

  const int port_;
  std::map<std::string, std::string> sessions_;
};

std::string MismatchHttp(const Json& expected, const HttpAnswer& answer) {
  const std::string shown = ": " + std::to_string(answer.status) + " " + answer.body.substr(0, 500);
  if (answer.timed_out) return "it never ended" + shown;
  const Json& status = expected["status"];
  const bool fits = status.is_array()
                        ? std::find(status.begin(), status.end(), answer.status) != status.end()
                        : status == answer.status;
  if (!fits) return "the status is not " + DumpJson(status) + shown;
  if (answer.status == 405 && !answer.headers.contains("allow")) return "405 without Allow";
  if (answer.status == 202 && !answer.body.empty()) return "202 with a body" + shown;
  if (expected.value("no_body", false) && !answer.body.empty()) return "a body" + shown;
  if (answer.headers.contains(expected.value("no_header", ""))) return "a header too many" + shown;
  for (const char* key : {"error", "result", "isError", "batch"}) {
    if (expected.contains(key)) return Mismatch(expected, answer.body);
  }
  return "";
}

// A server in this process whose limits of time are short.
class ImpatientServer {
 public:
  ImpatientServer() {
    registry_.server_info = {{"name", "impatient"}, {"version", "1"}};
    options_.limits.head = options_.limits.body = std::chrono::milliseconds(300);
    options_.limits.idle = std::chrono::seconds(1);
    options_.on_listening = [this](int taken) { listening_.set_value(taken); };
    thread_ = std::thread([this] {
      const auto ended = RunHttpServer(registry_, options_, stop_);
      EXPECT_TRUE(ended && *ended);
    });
    port = listening_.get_future().get();
  }
  ~ImpatientServer() {
    stop_.Request();
    thread_.join();
  }
  int port = 0;

 private:
  Registry registry_;
  HttpServerOptions options_;
  StopEvent stop_;
  std::promise<int> listening_;
  std::thread thread_;
};

// The port that the program names on stderr.
int ListeningPort(const Program& program) {
  const std::string mark = "listening on http://127.0.0.1:";
  for (int i = 0; i < 2000; ++i) {
    const std::string log = program.Log();
    const size_t at = log.find(mark);
    if (at != std::string::npos && log.find("/mcp", at) != std::string::npos) {
      return std::stoi(log.substr(at + mark.size()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ADD_FAILURE() << "it does not listen: " << program.Log();
  return 0;
}

TEST(HttpCorpus, EachCaseGetsItsAnswerAndTheProcessLives) {
  const std::vector<Json> cases = LoadCorpus("http.jsonl");
  ASSERT_GE(cases.size(), 60u);
  Program program({"serve", "--http", "127.0.0.1:0"});
  Server server(ListeningPort(program));
  ImpatientServer impatient_process;
  Server impatient(impatient_process.port);
  for (const Json& test_case : cases) {
    SCOPED_TRACE(test_case["name"].get<std::string>());
    Server& asked = test_case.value("server", "") == "impatient" ? impatient : server;
    EXPECT_EQ(MismatchHttp(test_case["answer"], asked.Run(test_case)), "");
    asked.ExpectAlive();
    if (testing::Test::HasFatalFailure()) return;
  }
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0) << program.Log();
  EXPECT_EQ(program.client.ReadAll().size(), 0u) << "stdout is not HTTP's";
}

}  // namespace
}  // namespace mpnanny::hostile
