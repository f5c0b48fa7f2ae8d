// Where a team's database lies, as a person writes it: a PostgreSQL URL, and the handle of a
// training in it.
//
// Parsed here and not by libpq, so that what may be asked for is decided before anything is opened.
// Never holds a password: libpq has its own ways for that. Plain value; free functions.
#ifndef MPNANNY_ENGINES_TEAM_ADDRESS_H_
#define MPNANNY_ENGINES_TEAM_ADDRESS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace mpnanny::team {

struct Address {
  // All as libpq will have them: what stands behind '?' decides over what stands before it.
  std::string user, host, port, database;  // "": libpq's default; `host` may be a socket's folder
  std::map<std::string, std::string> options;  // the others: sslmode, connect_timeout, hostaddr …
  std::optional<int64_t> training;             // behind '#'
};

// True if the text starts as such a URL does, whatever follows.
bool LooksLikeAddress(std::string_view text);

// "postgresql://[user@]host[:port]/db[?option=value&…][#training]". Refuses a password, wherever it
// stands, and what libpq would not take for a URL.
Result<Address> ParseAddress(std::string_view text);

// The URL without its '#', and with `training` behind it: what answers show. Both can be given back
// to us.
std::string UrlOf(const Address& address);
std::string HandleOf(const Address& address, int64_t training);

// True if both name the same database: host, port and name. Users and options do not count, but an
// address that sends libpq elsewhere (hostaddr, service) equals none.
bool SameDatabase(const Address& a, const Address& b);

}  // namespace mpnanny::team

#endif  // MPNANNY_ENGINES_TEAM_ADDRESS_H_
