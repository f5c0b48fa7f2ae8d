// The address of a server that listens over HTTP.
//
// Plain values and free functions; safe from any thread. Nothing is connected here.
#ifndef MPNANNY_SERVER_COMMAND_LINE_HTTP_ENDPOINT_H_
#define MPNANNY_SERVER_COMMAND_LINE_HTTP_ENDPOINT_H_

#include <string>

#include "base/result.h"

namespace mpnanny {

struct HttpEndpoint {
  std::string scheme;  // "http" or "https"
  std::string host;    // an IPv6 address stands in brackets
  int port = 0;
  std::string path;  // "/mcp" where the URL names none

  std::string Origin() const;  // without the path
  std::string Url() const;
  bool IsLoopback() const;
};

// Reads http://HOST[:PORT][/PATH] or https://…; credentials, queries and fragments are refused.
Result<HttpEndpoint> ParseHttpEndpoint(const std::string& url);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_COMMAND_LINE_HTTP_ENDPOINT_H_
