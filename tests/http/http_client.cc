#include "tests/http/http_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace mpnanny {
namespace {

constexpr int kPatienceMs = 20'000;

Json ParseOrFail(const std::string& text) {
  auto json = ParseJson(text);
  if (!json) {
    ADD_FAILURE() << "not JSON: " << text;
    return nullptr;
  }
  return *std::move(json);
}

}  // namespace

Json Reply::json() const { return ParseOrFail(body); }
std::string Reply::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}
Json Event::json() const { return ParseOrFail(data); }

HttpClient::HttpClient(int port, int receive_buffer) {
  socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (receive_buffer > 0) {
    setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
}

HttpClient::HttpClient(HttpClient&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      buffer_(std::move(other.buffer_)),
      chunked_(other.chunked_),
      stream_over_(other.stream_over_),
      events_(std::move(other.events_)) {}

void HttpClient::Close() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
}

void HttpClient::ShutdownWrite() { shutdown(socket_, SHUT_WR); }

bool HttpClient::SendRaw(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

void HttpClient::Send(const std::string& method, const Headers& headers, const std::string& body) {
  Headers all = {{"Host", "localhost"}, {"Accept", "application/json, text/event-stream"}};
  if (!body.empty()) {
    all.emplace_back("Content-Type", "application/json");
    all.emplace_back("Content-Length", std::to_string(body.size()));
  }
  for (const auto& [name, value] : headers) {
    const auto same = std::find_if(all.begin(), all.end(), [&, n = name](const auto& each) {
      return LowerCase(each.first) == LowerCase(n);
    });
    if (same != all.end()) {
      same->second = value;
    } else {
      all.emplace_back(name, value);
    }
  }
  std::string text = method + " /mcp HTTP/1.1\r\n";
  for (const auto& [name, value] : all) {
    if (!value.empty()) text += name + ": " + value + "\r\n";
  }
  SendRaw(text + "\r\n" + body);
}

void HttpClient::Post(const Json& message, const Headers& headers) {
  Send("POST", headers, DumpJson(message));
}

void HttpClient::PostModern(const Json& message) {
  Headers headers = {{"MCP-Protocol-Version", "2026-07-28"}};
  headers.emplace_back("Mcp-Method", message["method"].get<std::string>());
  const Json params = message.value("params", Json::object());
  const std::string method = message["method"];
  if (method == "tools/call" || method == "prompts/get") {
    headers.emplace_back("Mcp-Name", params["name"].get<std::string>());
  } else if (method == "resources/read") {
    headers.emplace_back("Mcp-Name", params["uri"].get<std::string>());
  }
  Post(message, headers);
}

bool HttpClient::Fill() {
  pollfd ready{socket_, POLLIN, 0};
  if (poll(&ready, 1, kPatienceMs) <= 0) {
    ADD_FAILURE() << "nothing came within 20 s";
    return false;
  }
  char bytes[65536];
  const ssize_t n = recv(socket_, bytes, sizeof(bytes), 0);
  if (n <= 0) return false;
  buffer_.append(bytes, static_cast<size_t>(n));
  return true;
}

std::string HttpClient::Take(size_t bytes) {
  while (buffer_.size() < bytes && Fill()) {
  }
  std::string taken = buffer_.substr(0, bytes);
  buffer_.erase(0, bytes);
  return taken;
}

std::string HttpClient::TakeLine() {
  size_t end = 0;
  while ((end = buffer_.find("\r\n")) == std::string::npos) {
    if (!Fill()) return "";
  }
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return line;
}

Reply HttpClient::ReadHead() {
  Reply reply;
  const std::string first = TakeLine();
  if (first.size() < 12) return reply;
  reply.status = std::atoi(first.c_str() + 9);
  for (std::string line = TakeLine(); !line.empty(); line = TakeLine()) {
    const size_t colon = line.find(':');
    const std::string name = LowerCase(line.substr(0, colon));
    EXPECT_EQ(reply.headers.count(name), 0u) << name << " comes twice";
    reply.headers[name] = line.substr(line.find_first_not_of(' ', colon + 1));
  }
  chunked_ = reply.header("transfer-encoding") == "chunked";
  stream_over_ = false;
  events_.clear();
  return reply;
}

Reply HttpClient::Read() {
  Reply reply = ReadHead();
  if (!chunked_) {
    const std::string length = reply.header("content-length");
    if (!length.empty()) reply.body = Take(static_cast<size_t>(std::atol(length.c_str())));
    return reply;
  }
  while (const size_t size = std::strtoul(TakeLine().c_str(), nullptr, 16)) {
    reply.body += Take(size);
    TakeLine();
  }
  TakeLine();
  return reply;
}

std::optional<Event> HttpClient::ReadEvent() {
  while (true) {
    const size_t end = events_.find("\n\n");
    if (end != std::string::npos) {
      std::string text = events_.substr(0, end + 1);
      events_.erase(0, end + 2);
      Event event;
      bool any = false;
      while (!text.empty()) {
        const std::string line = text.substr(0, text.find('\n'));
        text.erase(0, line.size() + 1);
        if (line.starts_with("id: ")) event.id = line.substr(4);
        if (line.starts_with("retry: ")) event.retry = line.substr(7);
        if (line.starts_with("data: ")) event.data = line.substr(6);
        any = any || !line.starts_with(":");
      }
      if (any) return event;
      continue;
    }
    if (stream_over_) return std::nullopt;
    const size_t size = std::strtoul(TakeLine().c_str(), nullptr, 16);
    if (size == 0) {
      stream_over_ = true;
      TakeLine();
      continue;
    }
    events_ += Take(size);
    TakeLine();
  }
}

Json HttpClient::ReadMessage() {
  const auto event = ReadEvent();
  if (!event) {
    ADD_FAILURE() << "the stream ended";
    return nullptr;
  }
  return event->json();
}

bool HttpClient::ReadsEnd() {
  pollfd ready{socket_, POLLIN, 0};
  dropped_ = std::exchange(buffer_, "");
  while (poll(&ready, 1, kPatienceMs) > 0) {
    char bytes[65536];
    const ssize_t n = recv(socket_, bytes, sizeof(bytes), 0);
    if (n <= 0) return true;
    dropped_.append(bytes, static_cast<size_t>(n));
  }
  return false;
}

Json Legacy(Json id, const std::string& method, Json params) {
  return {
      {"jsonrpc", "2.0"}, {"id", std::move(id)}, {"method", method}, {"params", std::move(params)}};
}

Json ModernRequest(Json id, const std::string& method, Json params) {
  Json meta = {{"io.modelcontextprotocol/protocolVersion", "2026-07-28"},
               {"io.modelcontextprotocol/clientCapabilities", Json::object()},
               {"io.modelcontextprotocol/clientInfo", {{"name", "test"}, {"version", "1"}}}};
  meta.update(params.value("_meta", Json::object()));
  params["_meta"] = std::move(meta);
  return Legacy(std::move(id), method, std::move(params));
}

Json CallTool(Json id, const std::string& tool, Json arguments) {
  return ModernRequest(std::move(id), "tools/call",
                       {{"name", tool}, {"arguments", std::move(arguments)}});
}

Json LegacyCall(Json id, const std::string& tool, Json arguments) {
  return Legacy(std::move(id), "tools/call", {{"name", tool}, {"arguments", std::move(arguments)}});
}

Json Initialize(const std::string& version, Json capabilities) {
  return Legacy("init", "initialize",
                {{"protocolVersion", version},
                 {"capabilities", std::move(capabilities)},
                 {"clientInfo", {{"name", "test"}, {"version", "1"}}}});
}

}  // namespace mpnanny
