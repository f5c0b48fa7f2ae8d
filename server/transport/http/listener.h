// Accepts HTTP connections and serves their requests: cpp-httplib with a thread a connection, with
// connections that can be counted, told to end and cut off.
//
// Owns the listening socket, the connections and their threads. Start() and the functions that end
// it are called by one thread; the two handlers by the connections' threads, many at once. Handlers
// must not throw.
#ifndef MPNANNY_SERVER_TRANSPORT_HTTP_LISTENER_H_
#define MPNANNY_SERVER_TRANSPORT_HTTP_LISTENER_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "server/transport/http/connection.h"
#include "server/transport/http/exchange.h"

namespace mpnanny {

struct HttpHandlers {
  // Sees a request's head before its body is read. True: it has replied, and the body is refused.
  std::function<bool(HttpExchange&)> screen;
  // Sees what was let through, with its body. Must reply.
  std::function<void(HttpExchange&)> serve;
};

class HttpListener {
 public:
  HttpListener(HttpLimits limits, HttpHandlers handlers);
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  // Takes the port (0: a free one) and returns its number. Clients may connect from here on.
  Result<int> Bind(const std::string& host, int port);
  // Serves from now on, on threads of its own.
  void Start();

  // Takes no more connections, and no more requests on those there are.
  void StopAccepting();
  // Waits until no connection is left; false if that took longer.
  bool WaitUntilClosed(std::chrono::milliseconds at_most);
  // Cuts off the connections that are left and waits for their threads.
  void Abort();

 private:
  class Server;
  const HttpLimits limits_;
  std::unique_ptr<Server> server_;
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_TRANSPORT_HTTP_LISTENER_H_
