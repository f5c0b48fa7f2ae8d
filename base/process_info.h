// What can be asked about other processes of this machine: is the training that wrote a database
// still there?
//
// Free functions without state; safe from any thread.
#ifndef MPNANNY_BASE_PROCESS_INFO_H_
#define MPNANNY_BASE_PROCESS_INFO_H_

#include <cstdint>
#include <string>

namespace mpnanny {

// This machine's name; "" if it is not known.
std::string HostName();

// True if a process with this id runs (zombies do not) and was started no later than `started_by`
// (Unix seconds, 5 s of slack): an id that was given to a younger process is not the one that is
// meant. Where the start cannot be told (no /proc), only the id counts.
bool ProcessRuns(int64_t pid, double started_by);

// The id of this one.
int64_t CurrentProcess();

}  // namespace mpnanny

#endif  // MPNANNY_BASE_PROCESS_INFO_H_
