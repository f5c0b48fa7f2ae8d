// Who may talk to the server: the Host and Origin of a request, and its bearer token.
//
// A web page that a user happens to visit can send requests to this machine and, by DNS rebinding,
// read the answers. Both names are therefore checked on every request, wherever the server is
// bound. Immutable; safe from any thread.
#ifndef MPNANNY_SERVER_TRANSPORT_HTTP_ACCESS_RULES_H_
#define MPNANNY_SERVER_TRANSPORT_HTTP_ACCESS_RULES_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mpnanny {

struct AccessSettings {
  std::string bound_host;                 // as given to --http
  std::vector<std::string> hosts = {};    // --allow-host: names without a port
  std::vector<std::string> origins = {};  // --allow-origin: scheme://host[:port]
  std::string token = "";                 // empty: none is asked for
};

struct AccessRefusal {
  int status;  // 401 or 403
  std::string why;
};

class AccessRules {
 public:
  explicit AccessRules(AccessSettings settings);

  // Host and Origin. `local_address`: the address that the client has connected to.
  std::optional<AccessRefusal> CheckNames(std::optional<std::string_view> host,
                                          std::optional<std::string_view> origin,
                                          std::string_view local_address) const;
  // These, and the token.
  std::optional<AccessRefusal> Check(std::optional<std::string_view> host,
                                     std::optional<std::string_view> origin,
                                     std::optional<std::string_view> authorization,
                                     std::string_view local_address) const;

  // True for the origins that were allowed by name: their pages may read answers.
  bool IsAllowedOrigin(std::optional<std::string_view> origin) const;

 private:
  bool KnowsHost(std::string_view host, std::string_view local_address) const;

  const AccessSettings settings_;
};

// The host in "host", "host:port", "[::1]:port" in small letters; nullopt if it is none of these.
std::optional<std::string> HostWithoutPort(std::string_view text);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_TRANSPORT_HTTP_ACCESS_RULES_H_
