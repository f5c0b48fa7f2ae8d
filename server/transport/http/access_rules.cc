#include "server/transport/http/access_rules.h"

#include <sodium.h>

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace mpnanny {
namespace {

std::string Unbracketed(std::string host) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    return host.substr(1, host.size() - 2);
  }
  return host;
}

bool Contains(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

bool IsPort(std::string_view text) {
  return !text.empty() && text.size() <= 5 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// 127.0.0.0/8 in its usual form.
bool IsLoopbackV4(std::string_view host) {
  return host.starts_with("127.") && host.size() <= 15 &&
         std::count(host.begin(), host.end(), '.') == 3 &&
         std::all_of(host.begin(), host.end(),
                     [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

// In time that does not tell how much of `given` was right.
bool SameSecret(std::string_view given, const std::string& secret) {
  unsigned char a[crypto_generichash_BYTES];
  unsigned char b[crypto_generichash_BYTES];
  crypto_generichash(a, sizeof(a), reinterpret_cast<const unsigned char*>(given.data()),
                     given.size(), nullptr, 0);
  crypto_generichash(b, sizeof(b), reinterpret_cast<const unsigned char*>(secret.data()),
                     secret.size(), nullptr, 0);
  return sodium_memcmp(a, b, sizeof(a)) == 0;
}

// What follows "Bearer ", or nullopt.
std::optional<std::string_view> BearerToken(std::optional<std::string_view> authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (!authorization || LowerCase(authorization->substr(0, kScheme.size())) != kScheme) {
    return std::nullopt;
  }
  std::string_view token = authorization->substr(kScheme.size());
  token.remove_prefix(std::min(token.find_first_not_of(' '), token.size()));
  return token;
}

}  // namespace

std::optional<std::string> HostWithoutPort(std::string_view text) {
  size_t end = text.size();
  if (text.starts_with("[")) {
    end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    ++end;
  } else {
    end = std::min(text.find(':'), text.size());
  }
  const std::string_view rest = text.substr(end);
  if (end == 0 || (!rest.empty() && (rest.front() != ':' || !IsPort(rest.substr(1))))) {
    return std::nullopt;
  }
  return LowerCase(text.substr(0, end));
}

AccessRules::AccessRules(AccessSettings settings)
    : settings_([&] {
        settings.bound_host = Unbracketed(LowerCase(settings.bound_host));
        for (std::string& host : settings.hosts) host = Unbracketed(LowerCase(host));
        for (std::string& origin : settings.origins) origin = LowerCase(origin);
        return std::move(settings);
      }()) {}

bool AccessRules::KnowsHost(std::string_view text, std::string_view local_address) const {
  const auto bracketed = HostWithoutPort(text);
  if (!bracketed) return false;
  const std::string host = Unbracketed(*bracketed);
  // An address that the client has really connected to cannot come from a rebound name.
  return host == "localhost" || host == "::1" || IsLoopbackV4(host) ||
         host == settings_.bound_host || host == local_address || Contains(settings_.hosts, host);
}

bool AccessRules::IsAllowedOrigin(std::optional<std::string_view> origin) const {
  return origin && Contains(settings_.origins, LowerCase(*origin));
}

std::optional<AccessRefusal> AccessRules::CheckNames(std::optional<std::string_view> host,
                                                     std::optional<std::string_view> origin,
                                                     std::string_view local_address) const {
  if (!host || !KnowsHost(*host, local_address)) {
    return AccessRefusal{403, "This server does not answer to Host '" +
                                  EscapeControl(host.value_or(""), 100) +
                                  "'. If the name is right, start it with --allow-host."};
  }
  if (origin) {
    const size_t scheme = origin->find("://");
    const bool web = origin->starts_with("http://") || origin->starts_with("https://");
    const bool known =
        IsAllowedOrigin(origin) || (web && KnowsHost(origin->substr(scheme + 3), local_address));
    if (!known) {
      return AccessRefusal{403, "Pages of origin '" + EscapeControl(*origin, 100) +
                                    "' may not use this server. If they should, start it with "
                                    "--allow-origin."};
    }
  }
  return std::nullopt;
}

std::optional<AccessRefusal> AccessRules::Check(std::optional<std::string_view> host,
                                                std::optional<std::string_view> origin,
                                                std::optional<std::string_view> authorization,
                                                std::string_view local_address) const {
  if (auto refused = CheckNames(host, origin, local_address)) return refused;
  if (!settings_.token.empty()) {
    const auto token = BearerToken(authorization);
    if (!token || !SameSecret(*token, settings_.token)) {
      return AccessRefusal{401, token ? "The bearer token is wrong."
                                      : "This server wants a token: Authorization: Bearer TOKEN."};
    }
  }
  return std::nullopt;
}

}  // namespace mpnanny
