// A server in this process, spoken to over pipes as a client would: lines in, lines out.
//
// Everything real but the tools, which the test defines: they stand for what a tool may do (sleep,
// fail, print).
#ifndef MPNANNY_TESTS_SERVER_TEST_SERVER_H_
#define MPNANNY_TESTS_SERVER_TEST_SERVER_H_

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/json.h"
#include "server/registry.h"
#include "server/stdio_server.h"
#include "tests/server/test_registry.h"

namespace mpnanny {

inline Json ModernMeta(Json more = Json::object()) {
  Json meta = {{"io.modelcontextprotocol/protocolVersion", "2026-07-28"},
               {"io.modelcontextprotocol/clientCapabilities", Json::object()},
               {"io.modelcontextprotocol/clientInfo", {{"name", "test"}, {"version", "1"}}}};
  meta.update(more);
  return meta;
}

inline Json Request(Json id, const std::string& method, Json params = Json::object()) {
  return {
      {"jsonrpc", "2.0"}, {"id", std::move(id)}, {"method", method}, {"params", std::move(params)}};
}

inline Json ModernRequest(Json id, const std::string& method, Json params = Json::object()) {
  params["_meta"] = ModernMeta(params.value("_meta", Json::object()));
  return Request(std::move(id), method, std::move(params));
}

inline Json InitializeRequest(Json id, const std::string& version) {
  return Request(std::move(id), "initialize",
                 {{"protocolVersion", version},
                  {"capabilities", Json::object()},
                  {"clientInfo", {{"name", "test"}, {"version", "1"}}}});
}

// The client's ends of two pipes. Reading gives up after 20 s, so that a silent server fails a test
// instead of hanging it.
class PipeClient {
 public:
  PipeClient(int to_server, int from_server) : to_server_(to_server), from_server_(from_server) {}
  ~PipeClient() {
    CloseInput();
    CloseOutput();
  }
  PipeClient(const PipeClient&) = delete;
  PipeClient& operator=(const PipeClient&) = delete;

  void SendRaw(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = write(to_server_, bytes.data(), bytes.size());
      ASSERT_GT(n, 0);
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }
  void SendLine(const std::string& line) { SendRaw(line + "\n"); }
  void Send(const Json& message) { SendLine(DumpJson(message)); }

  // The next line; nullopt at the end of the stream.
  std::optional<std::string> ReadLine() {
    while (true) {
      if (const size_t newline = buffer_.find('\n'); newline != std::string::npos) {
        std::string line = buffer_.substr(0, newline);
        buffer_.erase(0, newline + 1);
        return line;
      }
      pollfd ready{from_server_, POLLIN, 0};
      if (poll(&ready, 1, 20'000) <= 0) {
        ADD_FAILURE() << "no answer within 20 s";
        return std::nullopt;
      }
      char bytes[65536];
      const ssize_t n = read(from_server_, bytes, sizeof(bytes));
      if (n <= 0) return std::nullopt;
      buffer_.append(bytes, static_cast<size_t>(n));
    }
  }

  // The next message; every line must be JSON-RPC.
  Json Read() {
    const auto line = ReadLine();
    if (!line) {
      ADD_FAILURE() << "the server's output ended";
      return nullptr;
    }
    auto json = ParseJson(*line);
    if (!json) {
      ADD_FAILURE() << "not JSON: " << *line;
      return nullptr;
    }
    EXPECT_TRUE(!json->is_object() || json->value("jsonrpc", "") == "2.0") << *line;
    return *std::move(json);
  }

  // Sends a request and returns the answer to it; other messages on the way are kept in `others`.
  Json Ask(const Json& request) {
    Send(request);
    return Answer(request["id"]);
  }
  Json Answer(const Json& id) {
    while (true) {
      Json message = Read();
      if (message.is_null() || (!message.contains("method") && message.value("id", Json()) == id))
        return message;
      others.push_back(std::move(message));
    }
  }

  std::vector<Json> ReadAll() {
    std::vector<Json> messages;
    while (const auto line = ReadLine()) {
      auto json = ParseJson(*line);
      EXPECT_TRUE(json) << *line;
      if (json) messages.push_back(*std::move(json));
    }
    return messages;
  }

  void CloseInput() { Close(to_server_); }
  void CloseOutput() { Close(from_server_); }

  std::vector<Json> others;

 private:
  static void Close(int& fd) {
    if (fd >= 0) close(fd);
    fd = -1;
  }

  int to_server_;
  int from_server_;
  std::string buffer_;
};

struct PipePair {
  int client_out, server_in, server_out, client_in;
};

inline PipePair MakePipes() {
  int down[2];
  int up[2];
  EXPECT_EQ(pipe(down), 0);
  EXPECT_EQ(pipe(up), 0);
  return {down[1], down[0], up[1], up[0]};
}

// Some clients (Node's child_process) connect by sockets instead of pipes.
inline PipePair MakeSockets() {
  int down[2];
  int up[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, down), 0);
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, up), 0);
  return {down[1], down[0], up[1], up[0]};
}

class TestServer {
 public:
  explicit TestServer(Registry registry = TestRegistry(), StdioServerOptions options = {})
      : registry_(std::move(registry)),
        pipes_(MakePipes()),
        client(pipes_.client_out, pipes_.client_in) {
    thread_ = std::thread([this, options] {
      ended_well = RunStdioServer(registry_, {pipes_.server_in, pipes_.server_out}, stop, options);
      close(pipes_.server_in);
      close(pipes_.server_out);
    });
  }
  ~TestServer() {
    client.CloseInput();
    stop.Request();
    Join();
  }

  void Join() {
    if (thread_.joinable()) thread_.join();
  }

  // After initialize, as a client of this legacy revision.
  void Initialize(const std::string& version = "2025-11-25") {
    const Json answer = client.Ask(InitializeRequest("init", version));
    EXPECT_EQ(answer["result"]["protocolVersion"], version) << DumpJson(answer);
    client.Send({{"jsonrpc", "2.0"}, {"method", "notifications/initialized"}});
  }

 private:
  Registry registry_;
  PipePair pipes_;

 public:
  StopEvent stop;
  PipeClient client;
  std::atomic<bool> ended_well{false};

 private:
  std::thread thread_;
};

}  // namespace mpnanny

#endif  // MPNANNY_TESTS_SERVER_TEST_SERVER_H_
