// One HTTP exchange on a bare socket: any bytes out, what comes back in.
//
// Sends and reads at once, since a server may refuse a request before it has all of it. Gives up
// after 30 s, so that a silent server fails a test instead of hanging it.
#ifndef MPNANNY_TESTS_HOSTILE_EXCHANGE_H_
#define MPNANNY_TESTS_HOSTILE_EXCHANGE_H_

#include <map>
#include <string>

namespace mpnanny::hostile {

struct HttpAnswer {
  int status = 0;                              // 0: the connection ended without an answer
  std::map<std::string, std::string> headers;  // names in small letters
  std::string body;
  bool timed_out = false;
};

struct ExchangeOptions {
  bool half_close = false;    // after sending: "I have nothing more to say"
  bool close = false;         // after sending, without reading
  bool wait_for_end = false;  // do not leave before the server does
  bool no_body = false;       // the answer has none (HEAD)
  int drip_ms = 0;            // between single bytes …
  size_t drip_from = 0;       // … from this one on
};

HttpAnswer Exchange(int port, const std::string& bytes, const ExchangeOptions& options = {});

}  // namespace mpnanny::hostile

#endif  // MPNANNY_TESTS_HOSTILE_EXCHANGE_H_
