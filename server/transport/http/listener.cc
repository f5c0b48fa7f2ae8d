#include "server/transport/http/listener.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "base/log.h"
#include "server/transport/http/library_requests.h"
#include "server/transport/http/thread_cache.h"

namespace mpnanny {
namespace {

// Connections above the limit that are told so; further ones are closed at once.
constexpr size_t kSurplus = 16;
constexpr std::chrono::milliseconds kFarewell{1000};

// The connection that this thread serves: the library hands its handlers the request, but not the
// stream that it came from.
thread_local HttpConnection* t_connection = nullptr;

// Some versions of the library decode header values as if they were URLs, which would change names
// and URIs in them.
bool LibraryDecodesHeaderValues() {
  static const bool decodes = [] {
    const std::string line = "A: %41";
    std::string value;
    httplib::detail::parse_header(
        line.data(), line.data() + line.size(),
        [&](const std::string&, const std::string& given) { value = given; });
    return value == "A";
  }();
  return decodes;
}

class Stream final : public httplib::Stream {
 public:
  explicit Stream(HttpConnection& connection) : connection_(connection) {}

  // Waiting is Read()'s and Write()'s own.
  bool is_readable() const override { return false; }
  bool wait_readable() const override { return !connection_.broken(); }
  bool wait_writable() const override { return !connection_.broken(); }
  ssize_t read(char* to, size_t size) override { return connection_.Read(to, size); }
  ssize_t write(const char* from, size_t size) override {
    return connection_.Write({from, size}) ? static_cast<ssize_t>(size) : -1;
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return static_cast<socket_t>(connection_.socket()); }
  time_t duration() const override { return 0; }

 private:
  HttpConnection& connection_;
};

class Body final : public HttpStream {
 public:
  Body(HttpConnection& connection, httplib::DataSink& sink)
      : connection_(connection), sink_(sink) {}
  PeerState Wait(SocketClock::time_point until) override { return connection_.Wait(until); }
  WakeEvent& wake() override { return connection_.wake(); }
  bool Write(std::string_view bytes) override {
    return bytes.empty() || sink_.write(bytes.data(), bytes.size());
  }

 private:
  HttpConnection& connection_;
  httplib::DataSink& sink_;
};

class Exchange final : public HttpExchange {
 public:
  Exchange(HttpConnection& connection, const httplib::Request& request, httplib::Response& response)
      : connection_(connection), request_(request), response_(response) {}

  const std::string& method() const override { return request_.method; }
  const std::string& path() const override { return request_.path; }
  std::optional<std::string_view> Header(const std::string& name) const override {
    const auto found = request_.headers.find(name);
    if (found == request_.headers.end()) return std::nullopt;
    return found->second;
  }
  size_t HeaderCount(const std::string& name) const override {
    return request_.headers.count(name);
  }
  std::string_view body() const override { return request_.body; }
  const std::string& local_address() const override { return connection_.local_address; }
  bool surplus() const override { return connection_.surplus; }
  PeerState Wait(SocketClock::time_point until) override { return connection_.Wait(until); }
  WakeEvent& wake() override { return connection_.wake(); }

  void AddHeader(const std::string& name, const std::string& value) override {
    response_.set_header(name, value);
  }

  void Reply(HttpReply reply) override {
    response_.status = reply.status;
    for (const auto& [name, value] : reply.headers) response_.set_header(name, value);
    if (!reply.content_type.empty()) response_.set_header("Content-Type", reply.content_type);
    response_.body = std::move(reply.body);
    if (reply.close) connection_.close_after = true;
  }

  void ReplyWithStream(HttpHeaders headers, std::function<bool(HttpStream&)> write) override {
    response_.status = 200;
    for (const auto& [name, value] : headers) response_.set_header(name, value);
    auto provide = [&connection = connection_, write = std::move(write)](size_t,
                                                                         httplib::DataSink& sink) {
      Body body(connection, sink);
      if (!write(body)) return false;  // without the mark of a whole answer
      sink.done();
      return true;
    };
    if (request_.version == "HTTP/1.0") {  // knows no chunks: the body ends with the connection
      connection_.close_after = true;
      response_.set_content_provider("text/event-stream", std::move(provide));
    } else {
      response_.set_chunked_content_provider("text/event-stream", std::move(provide));
    }
  }

 private:
  HttpConnection& connection_;
  const httplib::Request& request_;
  httplib::Response& response_;
};

class Threads final : public httplib::TaskQueue {
 public:
  explicit Threads(ThreadCache& cache) : cache_(cache) {}
  bool enqueue(std::function<void()> work) override { return cache_.Run(std::move(work)); }
  void shutdown() override {}  // the cache outlives the accepting thread

 private:
  ThreadCache& cache_;
};

}  // namespace

class HttpListener::Server final : public httplib::Server {
 public:
  Server(const HttpLimits& limits, HttpHandlers handlers)
      : limits_(limits), handlers_(std::move(handlers)), threads_(limits.connections + kSurplus) {
    new_task_queue = [this] { return new Threads(threads_); };
    set_tcp_nodelay(true);
    set_socket_options([](socket_t socket) { AllowAddressReuse(static_cast<int>(socket)); });
    set_read_timeout(limits.idle.count());
    set_keep_alive_timeout(limits.idle.count());
    set_payload_max_length(limits.body_bytes);
    keep_alive_ = "timeout=" + std::to_string(limits.idle.count());
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      return Screen(request, response);
    });
    // Any path: which ones there are is the screen's to say. (A pattern without a parameter would
    // be a regular expression.)
    Post("/:endpoint", [this](const httplib::Request& request, httplib::Response& response) {
      t_connection->RequestRead();
      Exchange exchange(*t_connection, request, response);
      handlers_.serve(exchange);
    });
    set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (!response.body.empty() || response.content_provider_) return;
      if (t_connection->timed_out()) response.status = httplib::StatusCode::RequestTimeout_408;
      t_connection->close_after = true;  // a request that the library itself refuses
      response.body = std::string(httplib::status_message(response.status)) + "\n";
    });
    set_post_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      if (HasToken(request.headers, "Connection", "close")) t_connection->close_after = true;
      if (t_connection->stopped()) t_connection->close_after = true;
      response.headers.erase("Connection");
      response.headers.erase("Keep-Alive");
      if (t_connection->close_after) {
        response.set_header("Connection", "close");
      } else {
        response.set_header("Keep-Alive", keep_alive_);
      }
    });
  }

  ~Server() override {
    StopAccepting();
    Abort();
  }

  void Start() {
    accepting_ = std::thread([this] { listen_after_bind(); });
    wait_until_ready();
  }

  void StopAccepting() {
    // Not the library's stop(): that also breaks off answers that are being streamed.
    if (accepting_.joinable()) {
      StopListening(static_cast<int>(svr_sock_));
      accepting_.join();
    }
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (HttpConnection* connection : connections_) connection->StopIfIdle();
  }

  bool WaitUntilClosed(std::chrono::milliseconds at_most) {
    std::unique_lock lock(mutex_);
    return none_left_.wait_for(lock, at_most, [this] { return connections_.empty(); });
  }

  void Abort() {
    {
      const std::lock_guard lock(mutex_);
      for (HttpConnection* connection : connections_) connection->Abort();
    }
    threads_.Finish();
  }

 private:
  HandlerResponse Screen(const httplib::Request& request, httplib::Response& response) {
    t_connection->RequestRead();
    Exchange exchange(*t_connection, request, response);
    if (t_connection->has_bare_line_end()) {
      response.status = httplib::StatusCode::BadRequest_400;
      response.body = "A line of the head ends without CR.\n";
      RefuseRest();
      return HandlerResponse::Handled;
    }
    const bool refused = handlers_.screen(exchange);
    if (request.method == "POST" && !refused) {
      t_connection->BeginBody();
      return HandlerResponse::Unhandled;
    }
    // No body is read. (The library would wait for one that has no length.) If there is one, what
    // it holds must not be taken for the next request.
    if (request.method == "POST" || AnnouncesBody(request.headers)) {
      RefuseRest();
    } else {
      t_connection->EndRequest();
    }
    if (!refused) handlers_.serve(exchange);
    return HandlerResponse::Handled;
  }

  static void RefuseRest() {
    t_connection->close_after = true;
    t_connection->Refuse();
  }

  // Of the connections that `is` holds of, cuts off the one whose client has owed a request, or the
  // rest of one, for the longest time; false if there is none.
  bool CutLongest(const std::function<bool(const HttpConnection&)>& is) {  // needs mutex_
    while (true) {
      HttpConnection* longest = nullptr;
      for (HttpConnection* each : connections_) {
        if (each->leaving || !is(*each)) continue;
        if (!longest || each->owed_since() < longest->owed_since()) longest = each;
      }
      if (!longest) return false;
      if (!longest->CutIfOwed()) continue;  // its request has just come
      longest->leaving = true;
      ++leaving_;
      return true;
    }
  }

  // Idle clients go before those that are sending.
  bool MakeRoom() {  // needs mutex_
    return CutLongest([](const HttpConnection& each) { return each.idle(); }) ||
           CutLongest([](const HttpConnection& each) { return each.unfinished(); });
  }

  // Connections cost a client nothing, and until a request is whole nobody knows whether it may
  // ask at all: no address takes more than its share with requests that it does not end.
  void BoundUnfinished(const std::string& address) {  // needs mutex_
    if (connections_.size() - leaving_ < limits_.unfinished()) return;
    const auto is = [&](const HttpConnection& each) {
      return !each.leaving && each.unfinished() && each.remote_address == address;
    };
    const auto count = std::count_if(connections_.begin(), connections_.end(),
                                     [&](const HttpConnection* each) { return is(*each); });
    if (static_cast<size_t>(count) >= limits_.unfinished()) CutLongest(is);
  }

  bool process_and_close_socket(socket_t socket) override {
    HttpConnection connection(static_cast<int>(socket), limits_);
    int port = 0;
    httplib::detail::get_remote_ip_and_port(socket, connection.remote_address, port);
    httplib::detail::get_local_ip_and_port(socket, connection.local_address, port);
    {
      const std::lock_guard lock(mutex_);
      BoundUnfinished(connection.remote_address);
      connection.surplus = connections_.size() - leaving_ >= limits_.connections && !MakeRoom();
      connections_.insert(&connection);
      if (stopping_) connection.StopIfIdle();
    }
    connection.escape_percent = LibraryDecodesHeaderValues();
    t_connection = &connection;
    Stream stream(connection);
    bool well = true;
    while (well && !connection.close_after && connection.AwaitRequest()) {
      bool closed = false;
      well = process_request(stream, "", 0, connection.local_address, port,
                             /*close_connection=*/false, closed, [&](httplib::Request& request) {
                               if (TakeWhatIsNotServed(request)) connection.close_after = true;
                             });
      if (closed) connection.close_after = true;
    }
    t_connection = nullptr;
    if (connection.request_line_too_long() && !connection.answered()) {
      connection.Write(
          "HTTP/1.1 414 URI Too Long\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
      connection.Refuse();
    }
    {
      const std::lock_guard lock(mutex_);
      connections_.erase(&connection);
      if (connection.leaving) --leaving_;
      if (connections_.empty()) none_left_.notify_all();
    }
    if (connection.refused() && !connection.broken()) {  // what it still sends is unread
      CloseAfterAnswer(connection.socket(), kFarewell);
    } else {
      CloseSocket(connection.socket());
    }
    return well;
  }

  const HttpLimits& limits_;
  const HttpHandlers handlers_;
  std::string keep_alive_;
  std::mutex mutex_;
  std::condition_variable none_left_;
  std::set<HttpConnection*> connections_;  // guarded by mutex_
  size_t leaving_ = 0;                     // of them, cut to make room; guarded by mutex_
  bool stopping_ = false;                  // guarded by mutex_
  ThreadCache threads_;                    // its threads use what stands above
  std::thread accepting_;
};

HttpListener::HttpListener(HttpLimits limits, HttpHandlers handlers)
    : limits_(limits), server_(std::make_unique<Server>(limits_, std::move(handlers))) {}

HttpListener::~HttpListener() = default;

Result<int> HttpListener::Bind(const std::string& host, int port) {
  errno = 0;
  const int taken =
      port == 0 ? server_->bind_to_any_port(host) : (server_->bind_to_port(host, port) ? port : -1);
  if (taken > 0) return taken;
  const SocketFailure why = LastSocketFailure();
  const std::string where = host + ":" + std::to_string(port);
  if (why.port_in_use) {
    return Unavailable("Port " + std::to_string(port) + " of " + host + " is in use.",
                       "Is another server running? Stop it or take another port; 0 takes a free "
                       "one.");
  }
  return Unavailable("Cannot listen on " + where + (why.text.empty() ? "." : ": " + why.text + "."),
                     "The address must be one of this machine's, and ports below 1024 belong to "
                     "root.");
}

void HttpListener::Start() { server_->Start(); }
void HttpListener::StopAccepting() { server_->StopAccepting(); }
bool HttpListener::WaitUntilClosed(std::chrono::milliseconds at_most) {
  return server_->WaitUntilClosed(at_most);
}
void HttpListener::Abort() { server_->Abort(); }

}  // namespace mpnanny
