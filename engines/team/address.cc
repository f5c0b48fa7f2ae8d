#include "engines/team/address.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "base/run_handle.h"
#include "base/text.h"

namespace mpnanny::team {
namespace {

constexpr std::string_view kSchemes[] = {"postgresql://", "postgres://"};
constexpr char kShape[] = "It is written postgresql://[user@]host[:port]/database.";
constexpr char kPasswords[] =
    "Give it as libpq takes it: in the file ~/.pgpass (mode 0600), in PGPASSWORD, or by PGSERVICE.";
// Values that send libpq to another place than the URL says.
constexpr const char* kElsewhere[] = {"hostaddr", "service", "servicefile"};

Error Misshapen(std::string_view text, const std::string& why) {
  // What stands before an '@', and behind a '?', may be a password.
  const size_t at = text.rfind('@');
  std::string shown =
      at == std::string_view::npos ? std::string(text) : "…" + std::string(text.substr(at));
  if (const size_t question = shown.find('?'); question != std::string::npos) {
    shown = shown.substr(0, question) + "?…";
  }
  return InvalidInput("'" + EscapeControl(shown, 200) + "' names no database: " + why + ".",
                      kShape);
}

Error HasPassword() {
  return InvalidInput("A password stands in the URL, where others may read it.", kPasswords);
}

bool IsPort(const std::string& text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port > 0 && port < 65536;
}

std::string HostInUrl(const std::string& host) {
  return host.find(':') == std::string::npos ? PercentEncode(host) : "[" + host + "]";
}

}  // namespace

bool LooksLikeAddress(std::string_view text) {
  return std::any_of(std::begin(kSchemes), std::end(kSchemes),
                     [&](std::string_view scheme) { return text.starts_with(scheme); });
}

Result<Address> ParseAddress(std::string_view text) {
  const std::string_view whole = text;
  const auto scheme = std::find_if(std::begin(kSchemes), std::end(kSchemes),
                                   [&](std::string_view one) { return text.starts_with(one); });
  if (scheme == std::end(kSchemes)) return Misshapen(whole, "it does not begin with postgresql://");
  text.remove_prefix(scheme->size());
  if (whole.find('\0') != std::string_view::npos) return Misshapen(whole, "it holds a zero byte");

  Address address;
  if (const size_t hash = text.find('#'); hash != std::string_view::npos) {
    const std::string_view number = text.substr(hash + 1);
    int64_t training = 0;
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), training);
    if (error != std::errc() || end != number.data() + number.size() || training < 1) {
      return Misshapen(whole, "behind '#' stands the number of a training");
    }
    address.training = training;
    text = text.substr(0, hash);
  }
  std::string_view options;
  if (const size_t question = text.find('?'); question != std::string_view::npos) {
    options = text.substr(question + 1);
    text = text.substr(0, question);
  }
  std::string_view authority = text;
  if (const size_t slash = text.find('/'); slash != std::string_view::npos) {
    authority = text.substr(0, slash);
    address.database = PercentDecode(text.substr(slash + 1));
  }
  if (const size_t at = authority.rfind('@'); at != std::string_view::npos) {
    const std::string_view user = authority.substr(0, at);
    if (user.find(':') != std::string_view::npos) return HasPassword();
    address.user = PercentDecode(user);
    authority.remove_prefix(at + 1);
  }
  if (authority.starts_with("[")) {
    const size_t close = authority.find(']');
    if (close == std::string_view::npos) return Misshapen(whole, "a bracket is open");
    address.host = authority.substr(1, close - 1);
    authority.remove_prefix(close + 1);
    if (!authority.empty() && !authority.starts_with(":")) return Misshapen(whole, "of its host");
    if (!authority.empty()) address.port = authority.substr(1);
  } else {
    const size_t colon = authority.rfind(':');
    address.host = PercentDecode(authority.substr(0, colon));
    if (colon != std::string_view::npos) address.port = authority.substr(colon + 1);
  }

  while (!options.empty()) {
    const size_t end = std::min(options.find('&'), options.size());
    const std::string_view one = options.substr(0, end);
    options.remove_prefix(std::min(end + 1, options.size()));
    const size_t equals = one.find('=');
    if (equals == std::string_view::npos) {
      return Misshapen(whole, "an option is written name=value");
    }
    const std::string name = PercentDecode(one.substr(0, equals));
    const std::string value = PercentDecode(one.substr(equals + 1));
    if (name == "password" || name == "sslpassword") return HasPassword();
    if (name == "user") {
      address.user = value;
    } else if (name == "host") {
      address.host = value;
    } else if (name == "port") {
      address.port = value;
    } else if (name == "dbname") {
      // libpq would read a database's name with '=' in it as settings, a password among them.
      address.database = value;
    } else {
      address.options[name] = value;
    }
  }
  if (address.host.find(',') != std::string::npos) {
    return Misshapen(whole, "one host is asked, and this names several");
  }
  if (!address.port.empty() && !IsPort(address.port)) {
    return Misshapen(whole, "a port is a number from 1 to 65535");
  }
  if (address.database.find('=') != std::string::npos || LooksLikeAddress(address.database)) {
    return Misshapen(whole, "its database's name holds settings");
  }
  return address;
}

std::string UrlOf(const Address& address) {
  std::string url = "postgresql://";
  if (!address.user.empty()) url += PercentEncode(address.user) + "@";
  const bool socket = address.host.starts_with("/") || address.host.starts_with("@");
  std::vector<std::string> options;
  if (socket) {
    std::string folder;  // slashes stay readable
    for (const char c : address.host) folder += c == '/' ? "/" : PercentEncode({&c, 1});
    options.push_back("host=" + folder);
    if (!address.port.empty()) options.push_back("port=" + address.port);
  } else {
    url += HostInUrl(address.host);
    if (!address.port.empty()) url += ":" + address.port;
  }
  url += "/" + PercentEncode(address.database);
  for (const auto& [name, value] : address.options) {
    options.push_back(PercentEncode(name) + "=" + PercentEncode(value));
  }
  return options.empty() ? url : url + "?" + Join(options, "&");
}

std::string HandleOf(const Address& address, int64_t training) {
  return UrlOf(address) + "#" + std::to_string(training);
}

bool SameDatabase(const Address& a, const Address& b) {
  for (const char* name : kElsewhere) {
    if (a.options.contains(name) || b.options.contains(name)) return false;
  }
  const auto port = [](const Address& one) { return one.port.empty() ? "5432" : one.port; };
  return a.host == b.host && port(a) == port(b) && a.database == b.database;
}

}  // namespace mpnanny::team
