// One HTTP request and the answer to it, without the library that reads and writes them.
//
// Belongs to the connection's thread and lives for one request.
#ifndef MPNANNY_SERVER_TRANSPORT_HTTP_EXCHANGE_H_
#define MPNANNY_SERVER_TRANSPORT_HTTP_EXCHANGE_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/sockets.h"

namespace mpnanny {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpReply {
  int status = 200;
  std::string body = "";
  std::string content_type = "";
  HttpHeaders headers = {};
  // The connection is closed afterwards: what else it carries cannot be trusted, or is not wanted.
  bool close = false;
};

// The client of an exchange, for whoever waits and writes on the connection's thread.
class HttpPeer {
 public:
  virtual ~HttpPeer() = default;
  // Waits until another thread raises wake(), `until`, or the client has hung up. That the client
  // sends no more is told once a request.
  virtual PeerState Wait(SocketClock::time_point until) = 0;
  virtual WakeEvent& wake() = 0;
};

// The open body of an answer.
class HttpStream : public HttpPeer {
 public:
  // False if the client is gone or takes nothing.
  virtual bool Write(std::string_view bytes) = 0;
};

class HttpExchange : public HttpPeer {
 public:
  virtual const std::string& method() const = 0;
  virtual const std::string& path() const = 0;
  // The value, without spaces around it; of several the first.
  virtual std::optional<std::string_view> Header(const std::string& name) const = 0;
  virtual size_t HeaderCount(const std::string& name) const = 0;  // how often it stands there
  virtual std::string_view body() const = 0;                      // empty until it has been read
  virtual const std::string& local_address() const = 0;
  // There are more connections than the server serves: it should say so.
  virtual bool surplus() const = 0;

  // A header of the answer, whatever that will be.
  virtual void AddHeader(const std::string& name, const std::string& value) = 0;
  virtual void Reply(HttpReply reply) = 0;
  // Answers with status 200 and whatever `write` writes until it returns. It is called on this
  // thread once the exchange is over. If it returns false the answer is not whole, and its transfer
  // is broken off so that the client sees that.
  virtual void ReplyWithStream(HttpHeaders headers, std::function<bool(HttpStream&)> write) = 0;
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_TRANSPORT_HTTP_EXCHANGE_H_
