#include "server/command_line/http_endpoint.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/text.h"

namespace mpnanny {
namespace {

Error NoUrl(const std::string& url, const std::string& why) {
  return InvalidInput("--http '" + EscapeControl(url, 200) + "' " + why + ".",
                      "It looks like http://127.0.0.1:8765/mcp.");
}

bool IsVisible(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127; });
}

}  // namespace

std::string HttpEndpoint::Origin() const {
  return scheme + "://" + host + ":" + std::to_string(port);
}

std::string HttpEndpoint::Url() const { return Origin() + path; }

bool HttpEndpoint::IsLoopback() const {
  if (host == "localhost" || host == "[::1]") return true;
  // A name such as 127.example.org may lead anywhere.
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos;
}

Result<HttpEndpoint> ParseHttpEndpoint(const std::string& url) {
  HttpEndpoint endpoint;
  const size_t scheme_end = url.find("://");
  if (scheme_end != std::string::npos) endpoint.scheme = url.substr(0, scheme_end);
  if (endpoint.scheme != "http" && endpoint.scheme != "https") {
    return NoUrl(url, "is no http:// or https:// address");
  }
  if (!IsVisible(url) || url.find_first_of("@?#'\"\\") != std::string::npos) {
    return NoUrl(url, "holds what an address of a server does not");
  }
  const std::string rest = url.substr(scheme_end + 3);
  const size_t slash = std::min(rest.find('/'), rest.size());
  std::string authority = rest.substr(0, slash);
  endpoint.path = rest.substr(slash);
  if (endpoint.path.empty() || endpoint.path == "/") endpoint.path = "/mcp";
  endpoint.port = endpoint.scheme == "https" ? 443 : 80;
  const size_t colon = authority.rfind(':');
  if (colon != std::string::npos && authority.find(']', colon) == std::string::npos) {
    const char* const end = authority.data() + authority.size();
    const auto read = std::from_chars(authority.data() + colon + 1, end, endpoint.port);
    if (read.ec != std::errc() || read.ptr != end || endpoint.port < 1 || endpoint.port > 65535) {
      return NoUrl(url, "has no port between 1 and 65535");
    }
    authority.resize(colon);
  }
  if (authority.empty() || (authority.front() == '[') != (authority.back() == ']')) {
    return NoUrl(url, "names no host");
  }
  endpoint.host = LowerCase(authority);
  return endpoint;
}

}  // namespace mpnanny
