// What goes out of a team's database: statistics of old runs, thinned, and whole runs.
//
// Both are for the tables' owner. Free functions.
#ifndef MPNANNY_ENGINES_TEAM_THIN_H_
#define MPNANNY_ENGINES_TEAM_THIN_H_

#include <cstdint>
#include <string>

#include "base/cancel.h"
#include "base/result.h"
#include "engines/team/address.h"

namespace mpnanny::team {

// "30d", "12h", "90m" in seconds.
Result<double> ParseAge(const std::string& text);

// Of the runs whose last sign of life is older than `older_than`: of each rank's sampled steps one
// in `keep_every` stays whole, as do all within 200 steps of an alert; of the others the rows with
// a tensor's largest and smallest absmax and those that are not finite. Steps, alerts, events,
// findings stay. What was done, as a sentence.
Result<std::string> Thin(const Address& address, const std::string& older_than, int64_t keep_every,
                         const CancelToken& cancel);

// Removes the training that the address names, with all its ranks.
Result<std::string> Drop(const Address& address, const CancelToken& cancel);

}  // namespace mpnanny::team

#endif  // MPNANNY_ENGINES_TEAM_THIN_H_
