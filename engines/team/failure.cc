#include "engines/team/failure.h"

#include "base/text.h"
#include "engines/team/layout.h"

namespace mpnanny::team {
namespace {

constexpr char kPasswordHint[] =
    "libpq takes the password from ~/.pgpass (mode 0600, one line host:port:database:user:password)"
    ", PGPASSWORD or PGSERVICE; the user stands in the URL: postgresql://user@host/db.";

std::string OneLine(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\t') c = ' ';
  }
  while (!text.empty() && (text.back() == ' ' || text.back() == '.')) text.pop_back();
  return EscapeControl(text, 500);
}

std::string Shown(const Address& address) { return EscapeControl(UrlOf(address), 300); }

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

Error ConnectFailure(const Address& address, const std::string& why) {
  const std::string at = Shown(address);
  const std::string told = " (" + OneLine(why) + ").";
  // libpq gives no code here, and the server's words come in its own language; these are parts
  // that every version has in English, and the general answer below serves the others.
  if (Has(why, "password authentication failed") || Has(why, "no password supplied") ||
      Has(why, "28P01") || Has(why, "authentication failed")) {
    return InvalidInput(at + " does not let this user in" + told, kPasswordHint);
  }
  if (Has(why, "no pg_hba.conf entry")) {
    return InvalidInput(at + " takes no connection from here as this user" + told,
                        "The server's pg_hba.conf says who may connect and how; sslmode=require "
                        "behind '?' asks for TLS.");
  }
  if (Has(why, "database \"") && Has(why, "does not exist")) {
    return NotFound(at + ": there is no such database" + told,
                    "createdb makes one; `mpnanny ship --setup URL` puts the tables into it.");
  }
  if (Has(why, "role \"") && Has(why, "does not exist")) {
    return InvalidInput(at + ": there is no such user" + told, kPasswordHint);
  }
  if (Has(why, "invalid connection option") || Has(why, "invalid sslmode") ||
      Has(why, "invalid value")) {
    return InvalidInput(at + ": libpq does not take this URL" + told,
                        "Its options are those of libpq: sslmode, sslrootcert, connect_timeout …");
  }
  return Unavailable(at + " cannot be reached" + told,
                     "Is the server running there, and does it listen for this host? pg_isready "
                     "tells.");
}

Error ConnectTimedOut(const Address& address, std::chrono::milliseconds limit) {
  return Unavailable(
      Shown(address) + " did not answer within " + std::to_string(limit.count() / 1000) + " s.",
      "Is the host right, and does a firewall stand between? pg_isready tells.");
}

Error AnswerTimedOut(const Address& address, std::chrono::milliseconds limit) {
  return Unavailable(Shown(address) + " let a question wait for more than " +
                         std::to_string(limit.count() / 1000) + " s.",
                     "Is the server overloaded or stopped? pg_stat_activity shows what it does.");
}

Error ServerTooOld(const Address& address, int version) {
  return Unavailable(Shown(address) + " is PostgreSQL " + std::to_string(version / 10000) + ".",
                     "mpnanny needs " + std::to_string(kOldestServer / 10000) + " or newer.");
}

Error ConnectionLost(const Address& address, const std::string& why) {
  return Unavailable("The connection to " + Shown(address) + " was lost" +
                         (why.empty() ? "." : " (" + OneLine(why) + ")."),
                     "Try again: the server was stopped, restarted, or is out of reach.");
}

Error StatementFailure(const Address& address, const std::string& state, const std::string& message,
                       const CancelToken& cancel) {
  const std::string at = Shown(address);
  const std::string told = " (" + OneLine(message) + ", " + state + ").";
  const std::string family = state.substr(0, 2);
  if (state == "57014") {  // query_canceled: by us, or by statement_timeout
    MPN_TRY(cancel.Check());
    return DeadlineExceeded(at + ": the query took longer than it may" + told,
                            "Ask for fewer steps or fewer layers.");
  }
  if (state == "53100" || state == "53400" || Has(message, "No space left")) {
    return Unavailable(at + " is full" + told,
                       "Make room on the server: `mpnanny ship --thin URL --older-than 30d` thins "
                       "old runs, `--drop` removes one.");
  }
  if (family == "53") {
    return Unavailable(at + " has no room for this now" + told,
                       "Too many connections or too little memory there: try again later.");
  }
  if (family == "57" || family == "08" || state == "25006") {
    return Unavailable(at + " is stopping, starting or only to be read" + told,
                       "Try again in a moment.");
  }
  if (family == "55" || family == "40") {
    return Unavailable(at + " is held up by another program" + told, "Try again in a moment.");
  }
  if (state == "42501") {
    return InvalidInput(at + ": this user may not do that" + told,
                        "Writers are in the role mpnanny_writer, readers in mpnanny_reader; "
                        "thinning and dropping are for the tables' owner.");
  }
  if (state == "3F000" || state == "42P01") return WrongLayout(address, -1);
  return Unavailable(at + " refused a statement" + told,
                     "Is it the database that `mpnanny ship --setup URL` made?");
}

Error WrongLayout(const Address& address, int found) {
  const std::string at = Shown(address);
  if (found < 0) {
    return NotFound(at + " has no tables of mpnanny.",
                    "`mpnanny ship --setup URL`, run once by the database's owner, makes them.");
  }
  return InvalidInput(at + " has layout version " + std::to_string(found) +
                          "; this mpnanny knows " + std::to_string(kLayoutVersion) + ".",
                      found > kLayoutVersion ? "A newer mpnanny made it: update this one."
                                             : "`mpnanny ship --setup URL` brings it up to date.");
}

bool MayPass(const Error& error) {
  return error.kind == ErrorKind::kUnavailable || error.kind == ErrorKind::kDeadlineExceeded;
}

}  // namespace mpnanny::team
