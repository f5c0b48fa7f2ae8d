// bench-http: puts an MCP server under load over HTTP, with as little work of its own as possible.
//
// Usage: bench-http PORT CONNECTIONS LISTENERS SECONDS
//
// One thread and one epoll: CONNECTIONS keep-alive connections on which one small tools/call of
// revision 2026-07-28 follows the other, while LISTENERS more hold an acknowledged
// subscriptions/listen open. Prints one JSON object. Not part of the product; Linux only.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "bench-http: %s\n", what.c_str());
  std::exit(1);
}

std::string Post(int port, const std::string& headers, const std::string& body) {
  return "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port) +
         "\r\nContent-Type: application/json\r\n"
         "Accept: application/json, text/event-stream\r\n"
         "MCP-Protocol-Version: 2026-07-28\r\n" +
         headers + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

constexpr char kMeta[] = R"("_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",)"
                         R"("io.modelcontextprotocol/clientCapabilities":{},)"
                         R"("io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}})";

std::string CallRequest(int port) {
  return Post(
      port, "Mcp-Method: tools/call\r\nMcp-Name: echo\r\n",
      std::string(R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo",)"
                  R"("arguments":{"text":"x"},)") +
          kMeta + "}}");
}

std::string ListenRequest(int port, int id) {
  return Post(port, "Mcp-Method: subscriptions/listen\r\n",
              R"({"jsonrpc":"2.0","id":"listener-)" + std::to_string(id) +
                  R"(","method":"subscriptions/listen",)"
                  R"("params":{"notifications":{"toolsListChanged":true},)" +
                  kMeta + "}}");
}

int Connect(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) Fail("no more sockets");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    Fail(std::string("cannot connect: ") + std::strerror(errno));
  }
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return fd;
}

// How much of `text` the first chunked body takes; 0 while it is not whole.
size_t ChunkedLength(std::string_view text) {
  size_t at = 0;
  while (true) {
    const size_t line = text.find("\r\n", at);
    if (line == std::string_view::npos) return 0;
    const size_t size = std::strtoul(std::string(text.substr(at, line - at)).c_str(), nullptr, 16);
    at = line + 2 + size + 2;
    if (at > text.size()) return 0;
    if (size == 0) return at;
  }
}

// How much of `text` the first response takes; 0 while it is not whole.
size_t ResponseLength(std::string_view text) {
  const size_t end = text.find("\r\n\r\n");
  if (end == std::string_view::npos) return 0;
  std::string head(text.substr(0, end + 2));
  std::transform(head.begin(), head.end(), head.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const size_t body = end + 4;
  const size_t length = head.find("\r\ncontent-length:");
  if (length != std::string::npos) {
    const size_t whole = body + std::strtoul(head.c_str() + length + 17, nullptr, 10);
    return text.size() < whole ? 0 : whole;
  }
  if (head.find("\r\ntransfer-encoding: chunked") == std::string::npos) {
    Fail("a response without a length: " + head);
  }
  const size_t chunks = ChunkedLength(text.substr(body));
  return chunks == 0 ? 0 : body + chunks;
}

struct Peer {
  int fd = -1;
  bool listens = false;
  std::string received;
  Clock::time_point sent;
};

class Load {
 public:
  explicit Load(int port) : port_(port), call_(CallRequest(port)), epoll_(epoll_create1(0)) {}

  // Opens a listener and waits for its acknowledgement.
  void AddListener(int id) {
    Peer& peer = Add(true);
    Send(peer, ListenRequest(port_, id));
    while (peer.received.find("notifications/subscriptions/acknowledged") == std::string::npos) {
      if (!Receive(peer)) Fail("a listener was not acknowledged: " + peer.received);
    }
  }

  void AddCaller() { Add(false); }

  // Calls on every connection until `end`; the latencies are kept if `count`.
  void Run(Clock::time_point end, bool count) {
    for (const auto& peer : peers_) {
      if (!peer->listens) Call(*peer);
    }
    size_t open = Callers();
    std::array<epoll_event, 64> events;
    while (open > 0) {
      const int ready = epoll_wait(epoll_, events.data(), events.size(), 10'000);
      if (ready <= 0) Fail("the server has not answered for 10 s");
      for (int i = 0; i < ready; ++i) {
        Peer& peer = *static_cast<Peer*>(events[i].data.ptr);
        if (!Receive(peer)) Fail("the server closed a connection");
        if (peer.listens) {
          peer.received.clear();  // a comment that keeps the stream alive
          continue;
        }
        const size_t length = ResponseLength(peer.received);
        if (length == 0) continue;
        const auto now = Clock::now();
        Check(peer, length);
        if (count) micros_.push_back(Micros(now - peer.sent));
        peer.received.erase(0, length);
        if (now < end) {
          Call(peer);
        } else {
          --open;
        }
      }
    }
  }

  void Print(double seconds) {
    std::sort(micros_.begin(), micros_.end());
    if (micros_.empty()) Fail("no call was answered");
    std::printf(
        "{\"calls\": %zu, \"per_second\": %.1f, \"p50_us\": %.1f, \"p99_us\": %.1f, "
        "\"listeners\": %zu}\n",
        micros_.size(), static_cast<double>(micros_.size()) / seconds, micros_[micros_.size() / 2],
        micros_[micros_.size() * 99 / 100], peers_.size() - Callers());
  }

 private:
  static double Micros(Clock::duration time) {
    return std::chrono::duration<double, std::micro>(time).count();
  }

  size_t Callers() const {
    return static_cast<size_t>(std::count_if(peers_.begin(), peers_.end(),
                                             [](const auto& peer) { return !peer->listens; }));
  }

  Peer& Add(bool listens) {
    peers_.push_back(std::make_unique<Peer>());
    Peer& peer = *peers_.back();
    peer.fd = Connect(port_);
    peer.listens = listens;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = &peer;
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, peer.fd, &event) != 0) Fail("epoll_ctl");
    return peer;
  }

  static void Send(const Peer& peer, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = send(peer.fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) Fail("the server does not take a request");
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }

  void Call(Peer& peer) {
    peer.sent = Clock::now();
    Send(peer, call_);
  }

  bool Receive(Peer& peer) {
    const ssize_t n = recv(peer.fd, buffer_.data(), buffer_.size(), 0);
    if (n <= 0) return false;
    peer.received.append(buffer_.data(), static_cast<size_t>(n));
    return true;
  }

  // An answer that is no result would make the figures worthless.
  static void Check(const Peer& peer, size_t length) {
    const std::string_view text = std::string_view(peer.received).substr(0, length);
    if (text.starts_with("HTTP/1.1 200") && text.find("\"result\"") != std::string_view::npos &&
        text.find("\"isError\":true") == std::string_view::npos) {
      return;
    }
    Fail("not the answer of a call: " + std::string(text.substr(0, 600)));
  }

  const int port_;
  const std::string call_;
  const int epoll_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::array<char, 65536> buffer_;
  std::vector<double> micros_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) Fail("usage: bench-http PORT CONNECTIONS LISTENERS SECONDS");
  const int connections = std::atoi(argv[2]);
  const int listeners = std::atoi(argv[3]);
  const double seconds = std::atof(argv[4]);
  if (connections < 1 || seconds <= 0) Fail("at least one connection and some time are needed");

  Load load(std::atoi(argv[1]));
  for (int i = 0; i < listeners; ++i) load.AddListener(i);
  for (int i = 0; i < connections; ++i) load.AddCaller();
  const auto span = [](double s) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
  };
  load.Run(Clock::now() + span(std::min(0.5, seconds / 4)), false);  // caches and compilers warm up
  const auto start = Clock::now();
  load.Run(start + span(seconds), true);
  load.Print(std::chrono::duration<double>(Clock::now() - start).count());
}
