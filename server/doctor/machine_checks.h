// What the server needs of the machine that it runs on.
//
// Runs on the calling thread; reads only.
#ifndef MPNANNY_SERVER_DOCTOR_MACHINE_CHECKS_H_
#define MPNANNY_SERVER_DOCTOR_MACHINE_CHECKS_H_

#include <string>
#include <vector>

#include "server/doctor/check.h"

namespace mpnanny {

// That each root is a folder that can be read, and has room for what the monitor writes.
Checks CheckRoots(const std::vector<std::string>& roots);

// "3.40.1": the one that this process has loaded.
std::string SqliteVersion();

// That SQLite can do what databases and search need.
Check CheckSqlite();

// Whether this machine can confine code of the user's, as auto_diff runs it from `program`.
Check CheckSandbox(const std::string& program);

// Whether `mpnanny-worker` beside `program` starts, and with which torch.
Check CheckWorker(const std::string& program);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DOCTOR_MACHINE_CHECKS_H_
