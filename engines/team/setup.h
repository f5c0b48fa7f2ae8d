// Makes the layout in a database, or brings it up to date.
//
// Free function; safe from any thread.
#ifndef MPNANNY_ENGINES_TEAM_SETUP_H_
#define MPNANNY_ENGINES_TEAM_SETUP_H_

#include <string>

#include "base/cancel.h"
#include "base/result.h"
#include "engines/team/address.h"

namespace mpnanny::team {

// In one transaction, by the database's owner; changes nothing where all is there. What is there
// now, as a sentence.
Result<std::string> Setup(const Address& address, const CancelToken& cancel);

}  // namespace mpnanny::team

#endif  // MPNANNY_ENGINES_TEAM_SETUP_H_
