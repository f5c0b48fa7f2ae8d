// What can be wrong with a team's database, in words: where, what, and what to try.
//
// Free functions. libpq's own text never holds a password; it is shown escaped and in one line.
#ifndef MPNANNY_ENGINES_TEAM_FAILURE_H_
#define MPNANNY_ENGINES_TEAM_FAILURE_H_

#include <chrono>
#include <string>

#include "base/cancel.h"
#include "base/result.h"
#include "engines/team/address.h"

namespace mpnanny::team {

inline constexpr int kOldestServer = 120000;  // 12: generated columns, partitions with foreign keys

Error ConnectFailure(const Address& address, const std::string& why);
Error ConnectTimedOut(const Address& address, std::chrono::milliseconds limit);
Error AnswerTimedOut(const Address& address, std::chrono::milliseconds limit);
Error ServerTooOld(const Address& address, int version);
Error ConnectionLost(const Address& address, const std::string& why);
// `state`: SQLSTATE. A query that ended because its call did is the call's own error.
Error StatementFailure(const Address& address, const std::string& state, const std::string& message,
                       const CancelToken& cancel);
// The database has no tables of ours, or those of another layout. `found` < 0: none.
Error WrongLayout(const Address& address, int found);

// True if trying again later may help: the server is away, starting, full, or busy.
bool MayPass(const Error& error);

}  // namespace mpnanny::team

#endif  // MPNANNY_ENGINES_TEAM_FAILURE_H_
